package owner_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/control"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/owner"
	"b-com.com/accelerator-device-plugin/internal/trust/trusttest"
)

// world has the daemons of a node, and its slices: a kubelet deletes them 30 s after the last driver has ended.
type world struct {
	*testing.T
	dir string

	mu     sync.Mutex
	owners map[string]int // by API
	slices bool
	kill   *time.Timer // of the kubelet
	seen   map[string]int
}

func (w *world) do(what string, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[what]++
	f()
	if w.owners[control.DRA] > 0 && w.owners[control.DevicePlugin] > 0 {
		w.Errorf("after %q: found owners %v, want those of one API", what, w.owners)
	}
	if w.owners[control.DevicePlugin] > 0 && w.slices {
		w.Errorf("after %q: found slices while a plugin owns the node", what)
	}
}

// count returns how often this was seen.
func (w *world) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[what]
}

func (w *world) takes(api string) {
	w.do(api+" takes", func() {
		w.owners[api]++
		if api == control.DRA {
			w.slices = true
			w.kill.Stop()
		}
	})
}

func (w *world) ends(how, api string) {
	w.do(api+how, func() {
		w.owners[api]--
		if api == control.DRA && w.owners[api] == 0 && w.slices {
			w.kill.Reset(30 * time.Second)
		}
	})
}

// member is a daemon of a random sequence. Its end is one of the ways to end; nil: it has ended.
type member struct {
	api  string
	end  chan string
	done chan struct{}
}

const (
	stop  = " stops"
	kill  = " is killed"
	fail  = " fails"
	stuck = " cannot withdraw"
	cut   = " is killed while it withdraws"
)

func (w *world) start(api string) *member {
	m := &member{api, make(chan string, 1), make(chan struct{})}
	go func() {
		defer close(m.done)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		n := owner.New(w.dir, api, zap.NewNop())
		n.Hurry(time.Second, 40*time.Second) // fewer attempts: the sequences last for hours together
		taken := make(chan error, 1)
		go func() { taken <- n.Take(ctx) }()
		how := ""
		select {
		case how = <-m.end:
			cancel()
			if <-taken != nil {
				return
			}
			w.takes(api)
		case <-taken:
			w.takes(api)
			how = <-m.end
		}
		withdrawn := false
		switch how {
		case kill:
			w.ends(how, api)
			n.Kill()
			return
		case fail:
			w.ends(how, api)
			n.Leave(ctx, nil)
			return
		}
		w.ends(stop, api) // it offers nothing from now on
		n.Leave(ctx, func(ctx context.Context) error {
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
			switch how {
			case stuck:
				w.do(api+how, func() {})
				<-ctx.Done()
				return ctx.Err()
			case cut:
				w.do(api+how, func() {})
				n.Kill()
				return errors.New("killed")
			}
			if api == control.DRA {
				w.do("withdrawn", func() { w.slices = false; w.kill.Stop() })
			}
			withdrawn = true
			return nil
		})
		if withdrawn {
			w.do(api+" leaves last", func() {})
		}
	}()
	return m
}

// sequences is the number of random sequences. 1000 take a minute with -race.
const sequences uint64 = 100

// Whatever starts, stops and is killed: daemons of both APIs never own the node at once, a device plugin never
// owns it while there are slices, and in the end any daemon can own it.
func TestRandomSequences(t *testing.T) {
	seen := map[string]int{}
	for seed := range sequences {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 22))
				w := &world{T: t, dir: trusttest.Dir(t), owners: map[string]int{}, seen: seen}
				w.kill = time.AfterFunc(time.Hour, func() {
					w.do("the kubelet deletes slices", func() { w.slices = w.owners[control.DRA] > 0 })
				})
				var running []*member
				for range 14 {
					switch n := random.IntN(10); {
					case n < 4 || len(running) == 0:
						api := control.DRA
						if random.IntN(2) == 0 {
							api = control.DevicePlugin
						}
						for range 1 + random.IntN(2) {
							running = append(running, w.start(api))
						}
					case n < 8:
						i := random.IntN(len(running))
						running[i].end <- []string{stop, stop, stop, kill, kill, fail, stuck, cut}[random.IntN(8)]
						running = append(running[:i], running[i+1:]...)
					default:
						time.Sleep(time.Duration(random.IntN(60_000)) * time.Millisecond)
					}
					if random.IntN(3) > 0 {
						time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
					}
				}
				for _, m := range running {
					m.end <- stop
				}
				for _, m := range running {
					<-m.done
				}
				time.Sleep(10 * time.Second) // those that were ended before leave
				for _, api := range []string{control.DRA, control.DevicePlugin, control.DRA} {
					before := w.count(api + " takes")
					m := w.start(api)
					time.Sleep(43 * time.Second)
					synctest.Wait()
					if w.count(api+" takes") == before {
						t.Errorf("%s does not own the node in the end", api)
					}
					m.end <- stop
					<-m.done
				}
				w.kill.Stop()
			})
		})
		if !ok {
			break
		}
	}
	t.Logf("seen: %v", seen)
	for _, what := range []string{"the kubelet deletes slices", "dra cannot withdraw", "dra is killed while it withdraws", "devicePlugin takes", "dra leaves last"} {
		if seen[what] == 0 {
			t.Errorf("no sequence in which %q", what)
		}
	}
}

// playIn is the environment variable with a state directory and an API. If it is set, the test binary owns and
// leaves the node until it is killed.
const playIn = "OWNER_TEST_PLAY_IN"

func TestMain(m *testing.M) {
	if text := os.Getenv(playIn); text != "" {
		dir, api, _ := strings.Cut(text, ",")
		fmt.Println(play(dir, api))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// play owns the node again and again. While it does, it has a shared lock on the witness of its API, and no process
// may have one on the witness of the other API. A driver creates the file "slices", and removes it when it withdraws.
// While a plugin waits for the kubelet, the file is removed. Later it must not find the file. play returns a violation.
func play(dir, api string) error {
	other := map[string]string{control.DRA: control.DevicePlugin, control.DevicePlugin: control.DRA}[api]
	mine, err := os.OpenFile(filepath.Join(dir, "..", "witness-"+api), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	theirs, err := os.OpenFile(filepath.Join(dir, "..", "witness-"+other), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	flock := func(f *os.File, how int) error { return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) }
	published := filepath.Join(dir, "..", "slices")
	for {
		core, logs := observer.New(zapcore.WarnLevel)
		n := owner.New(dir, api, zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
			if e.Level == zapcore.WarnLevel {
				_ = os.Remove(published) // two plugins may remove it
			}
			return nil
		})))
		n.Hurry(time.Millisecond, 20*time.Millisecond)
		if err := n.Take(context.Background()); err != nil {
			return err
		}
		if logs.FilterField(event.OwnerUnavailable).Len() > 0 {
			return fmt.Errorf("log: %v", logs.All())
		}
		if err := flock(mine, syscall.LOCK_SH); err != nil {
			return fmt.Errorf("own witness: %w", err)
		}
		// A process that is killed may lose the lock of the node some microseconds before that of its witness.
		for until := time.Now().Add(time.Second); ; {
			err := flock(theirs, syscall.LOCK_EX)
			if err == nil {
				err = flock(theirs, syscall.LOCK_UN)
			}
			if err == nil {
				break
			}
			if time.Now().After(until) {
				return fmt.Errorf("%s owns the node, and %s too", api, other)
			}
		}
		if api == control.DRA {
			if err := os.WriteFile(published, nil, 0o600); err != nil {
				return err
			}
		} else if _, err := os.Lstat(published); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the plugin owns the node: found slices, error %v, want none", err)
		}
		fmt.Println("owned")
		time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
		if err := flock(mine, syscall.LOCK_UN); err != nil {
			return err
		}
		n.Leave(context.Background(), func(context.Context) error {
			if api == control.DRA {
				return os.Remove(published)
			}
			return nil
		})
		time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
	}
}

// Processes of both APIs, two of each, that are killed at random times.
func TestKilled(t *testing.T) {
	dir := trusttest.Dir(t)
	end := time.Now().Add(5 * time.Second)
	var mu sync.Mutex
	owned, kills := map[string]int{}, 0
	var all sync.WaitGroup
	for i := range 4 {
		api := []string{control.DRA, control.DevicePlugin}[i%2]
		all.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				child := exec.CommandContext(t.Context(), os.Args[0])
				child.Env = append(os.Environ(), playIn+"="+dir+","+api)
				var stderr strings.Builder
				child.Stderr = &stderr
				out, err := child.StdoutPipe()
				if err == nil {
					err = child.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				killed := time.AfterFunc(time.Duration(20_000+rand.IntN(150_000))*time.Microsecond, func() { _ = child.Process.Kill() })
				for lines := bufio.NewScanner(out); lines.Scan(); {
					if text := lines.Text(); text != "owned" {
						t.Errorf("%s: %s", api, text)
						break
					}
					mu.Lock()
					owned[api]++
					mu.Unlock()
				}
				_ = child.Wait() // killed
				killed.Stop()
				if stderr.Len() > 0 {
					t.Errorf("%s: %s", api, stderr.String())
				}
				mu.Lock()
				kills++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d kills, owned %v", kills, owned)
	if owned[control.DRA] == 0 || owned[control.DevicePlugin] == 0 {
		t.Errorf("found that %v owned the node, want both", owned)
	}
}
