package owner_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// world contains a node's daemons, and whether it has slices. The kubelet deletes the slices 30 s after the last driver
// has exited.
type world struct {
	*testing.T
	dir string

	mu     sync.Mutex
	owners map[string]map[owner.Naming]int // by API and by the naming that they use to advertise devices
	slices bool
	kill   *time.Timer // the kubelet's timer
	seen   map[string]int
}

func (w *world) do(what string, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[what]++
	f()
	if len(w.owners[control.DRA])+len(w.owners[control.DevicePlugin]) > 1 {
		w.Errorf("after %q: found owners %v, want those of one API with one naming", what, w.owners)
	}
	if len(w.owners[control.DevicePlugin]) > 0 && w.slices {
		w.Errorf("after %q: found slices while a plugin owns the node", what)
	}
}

// count returns how often this was seen.
func (w *world) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[what]
}

func (w *world) add(api string, naming owner.Naming, n int) {
	if w.owners[api][naming] += n; w.owners[api][naming] == 0 {
		delete(w.owners[api], naming)
	}
}

func (w *world) takes(api string, naming owner.Naming) {
	w.do(api+" takes", func() {
		w.add(api, naming, 1)
		if w.owners[api][naming] > 1 {
			w.seen["another daemon joins"]++
		}
		if api == control.DRA {
			w.slices = true
			w.kill.Stop()
		}
	})
}

func (w *world) ends(how, api string, naming owner.Naming) {
	w.do(api+how, func() {
		w.add(api, naming, -1)
		if api == control.DRA && len(w.owners[api]) == 0 && w.slices {
			w.kill.Reset(30 * time.Second)
		}
	})
}

// member is a daemon in a random sequence. What is sent on end is how it should exit; nil means that it has exited.
type member struct {
	api    string
	wants  atomic.Int64 // its naming
	change chan bool    // signals a change of wants
	end    chan string
	done   chan struct{}
}

const (
	stop  = " stops"
	kill  = " is killed"
	fail  = " fails"
	stuck = " cannot withdraw"
	cut   = " is killed while it withdraws"
)

// rename changes a daemon's naming, whether or not it owns the node.
func (m *member) rename(naming owner.Naming) {
	m.wants.Store(int64(naming))
	select {
	case m.change <- true:
	default:
	}
}

func (w *world) start(random *rand.Rand, api string, naming owner.Naming) *member {
	random = rand.New(rand.NewPCG(random.Uint64(), 22)) // this daemon's own generator
	m := &member{api: api, change: make(chan bool, 1), end: make(chan string, 1), done: make(chan struct{})}
	m.wants.Store(int64(naming))
	go func() {
		defer close(m.done)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		n := owner.New(w.dir, api, zap.NewNop())
		n.Hurry(time.Second, 40*time.Second) // fewer attempts, because the sequences add up to hours
		wants := func() owner.Naming { return owner.Naming(m.wants.Load()) }
		taken := make(chan error, 1)
		go func() {
			err := n.Take(ctx, wants)
			for err == nil && n.Naming() != wants() { // it changed after the last attempt
				n.Release()
				err = n.Take(ctx, wants)
			}
			taken <- err
		}()
		how := ""
		select {
		case how = <-m.end:
			cancel()
			if <-taken != nil {
				return
			}
		case <-taken:
		}
		offered := n.Naming()
		w.takes(api, offered)
		again := time.NewTicker(time.Second)
		defer again.Stop()
		var moved, settled <-chan time.Time
		rename := func() {
			before := n.Naming()
			switch {
			case wants() == before:
			case n.Rename(ctx, wants()):
				w.do(api+" may rename", func() {})
				moved, settled = time.After(time.Duration(random.IntN(900))*time.Millisecond), nil
			default:
				w.do(api+" may not rename", func() {})
			}
		}
		for how == "" {
			select {
			case how = <-m.end:
			case <-m.change:
				rename()
			case <-again.C:
				rename()
			case <-moved:
				w.do("devices are renamed", func() {
					w.add(api, offered, -1)
					offered = n.Naming()
					w.add(api, offered, 1)
				})
				moved, settled = nil, time.After(time.Duration(random.IntN(900))*time.Millisecond)
			case <-settled:
				n.Renamed()
			}
		}
		withdrawn := false
		switch how {
		case kill:
			w.ends(how, api, offered)
			n.Kill()
			return
		case fail:
			w.ends(how, api, offered)
			n.Leave(ctx, nil)
			return
		}
		w.ends(stop, api, offered) // from now on, it doesn't advertise anything
		n.Leave(ctx, func(ctx context.Context) error {
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
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

const sequences uint64 = 40

// No matter which daemons start, stop, get renamed or get killed, daemons of different APIs never own the node at the
// same time, nor do daemons with different namings. A device plugin never owns the node while there are slices. In the
// end, any daemon can own it.
func TestRandomSequences(t *testing.T) {
	seen := map[string]int{}
	for seed := range sequences {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 22))
				w := &world{T: t, dir: privatedirtest.Dir(t), seen: seen}
				w.owners = map[string]map[owner.Naming]int{control.DRA: {}, control.DevicePlugin: {}}
				w.kill = time.AfterFunc(time.Hour, func() {
					w.do("the kubelet deletes slices", func() { w.slices = len(w.owners[control.DRA]) > 0 })
				})
				naming := func() owner.Naming { return owner.Naming(1 + random.IntN(3)) }
				var running []*member
				for range 18 {
					switch n := random.IntN(13); {
					case n < 4 || len(running) == 0:
						api := control.DRA
						if random.IntN(2) == 0 {
							api = control.DevicePlugin
						}
						wants := naming()
						if len(running) > 0 && random.IntN(2) == 0 {
							wants = owner.Naming(running[0].wants.Load())
						}
						for range 1 + random.IntN(2) {
							running = append(running, w.start(random, api, wants))
						}
					case n < 8:
						i := random.IntN(len(running))
						running[i].end <- []string{stop, stop, stop, kill, kill, fail, stuck, cut}[random.IntN(8)]
						running = append(running[:i], running[i+1:]...)
					case n < 9: // changes one daemon's settings
						running[random.IntN(len(running))].rename(naming())
					case n < 11: // changes all daemons' settings, as the node annotation does
						to := naming()
						for _, m := range running {
							m.rename(to)
						}
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
				time.Sleep(10 * time.Second) // daemons that were stopped before this leave
				for _, api := range []string{control.DRA, control.DevicePlugin, control.DRA} {
					before := w.count(api + " takes")
					m := w.start(random, api, naming())
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
	for _, what := range []string{"the kubelet deletes slices", "dra cannot withdraw", "dra is killed while it withdraws", "devicePlugin takes", "dra leaves last",
		"another daemon joins", "devices are renamed", "dra may not rename", "devicePlugin may not rename"} {
		if seen[what] == 0 {
			t.Errorf("no sequence in which %q", what)
		}
	}
}

// When a process is killed, it immediately stops owning the node. The kubelet removes its slices later.
func TestKilled(t *testing.T) {
	dir := privatedirtest.Dir(t)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), ownIn+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must.Succeed(t, err, child.Start())
	if text, err := bufio.NewReader(out).ReadString('\n'); err != nil || text != "owned\n" {
		t.Fatalf("the process printed %q, error %v, want that it owns the node", text, err)
	}
	must.Succeed(t, child.Process.Kill())
	_ = child.Wait() // killed
	for _, api := range []string{control.DRA, control.DevicePlugin} {
		n := owner.New(dir, api, zap.NewNop())
		n.Hurry(time.Millisecond, time.Millisecond)
		must.Succeed(t, n.Take(t.Context(), func() owner.Naming { return 2 }))
		n.Kill()
	}
}

// ownIn is an environment variable with a state directory. If it is set, the test binary owns the node until it is
// killed.
const ownIn = "OWNER_TEST_OWN_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownIn); dir != "" {
		n := owner.New(dir, control.DRA, zap.NewNop())
		fmt.Println(map[bool]string{true: "owned"}[n.Take(context.Background(), func() owner.Naming { return 1 }) == nil])
		_ = syscall.Pause()
	}
	os.Exit(m.Run())
}
