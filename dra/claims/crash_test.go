package claims_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
)

// After a crash at any step of Prepare or Unprepare, the next instance completes Prepare, or Unprepare removes
// what is left. The other claim keeps its device.
func TestCrash(t *testing.T) {
	one, two := claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.0")), claimOf("two", result("a", "af:00.0"))
	devices := []*inventory.Device{port("3b:00.0", 0), port("5e:00.0", 1), port("af:00.0", 2)}
	before, after := newRig(t, devices...), newRig(t, devices...)
	before.prepare(two)
	after.prepare(two)
	after.prepare(one)
	for _, tc := range []struct {
		name       string
		file, spec string
		next       string // of the new file
		held       bool   // the claim is recorded
	}{
		{"nothing written", before.file(), before.specText(), "", false},
		{"half a new file", before.file(), before.specText(), after.file()[:len(before.file())], false},
		{"a whole new file", before.file(), before.specText(), after.file(), false},
		{"recorded (or in Unprepare: CDI device removed)", after.file(), before.specText(), "", true},
		{"recorded and in the spec", after.file(), after.specText(), "", true},
		{"the record is removed", before.file(), after.specText(), "", false},
		{"a reboot", after.file(), "", "", true},
	} {
		for _, call := range []string{"Prepare", "Unprepare", "Run"} {
			t.Run(tc.name+", then "+call, func(t *testing.T) {
				r := newRig(t, devices...)
				r.writeFile(tc.file)
				if tc.next != "" {
					if err := os.WriteFile(filepath.Join(r.dir, "claims.json.new"), []byte(tc.next), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if tc.spec != "" {
					if err := os.WriteFile(filepath.Join(r.cdi, specName), []byte(tc.spec), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				// Until Unprepare, no other claim gets a device that may have been given.
				thief := claimOf("thief", result("a", "5e:00.0"))
				if tc.held {
					r.refuseNow(thief, "is prepared for claim default/one")
				}
				want := before
				switch call {
				case "Prepare":
					r.prepare(one)
					want = after
				case "Unprepare":
					r.unprepare(one)
					r.prepare(thief)
					r.unprepare(thief)
				case "Run":
					stop := r.start()
					for len(r.injected()) == 0 || tc.held != slices.Equal(r.injected(), after.injected()) {
						if t.Context().Err() != nil {
							t.Fatal("the spec is not written")
						}
					}
					stop()
					if tc.held {
						want = after
					}
				}
				if diff := cmp.Diff(want.file(), r.file()) + cmp.Diff(want.specText(), r.specText()); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
				r.prepare(two)
				r.unprepare(one)
				r.unprepare(two)
				if text := r.file() + r.specText(); text != "" {
					t.Errorf("files without claims: found %s, want none", text)
				}
			})
		}
	}
}

// workIn is the environment variable with a directory. If it is set, the test binary prepares and unprepares
// claims in it until it is killed.
const workIn = "CLAIMS_TEST_WORK_IN"

const fourPorts = 4

// somePorts returns the devices 3b:00.0 to 3b:00.0-p3.
func somePorts() (all []*inventory.Device) {
	for i := range fourPorts {
		all = append(all, port(portID(i), i))
	}
	return all
}

func portID(i int) string { return strings.TrimSuffix(fmt.Sprintf("3b:00.0-p%d", i), "-p0") }

// contender returns the claim pN, which wants device N and the next one: it competes with both neighbours.
func contender(i int) *resourceapi.ResourceClaim {
	return claimOf(fmt.Sprint("p", i), result("a", portID(i)), result("b", portID((i+1)%fourPorts)))
}

type fixed struct{ inventory.Snapshot }

func (f fixed) Latest() (inventory.Snapshot, <-chan struct{}) { return f.Snapshot, nil }

// work prepares and unprepares the claims in turn.
func work(dir string) error {
	devices := somePorts()
	spec, err := cdi.Open(dir+"/cdi", kind, "/dev")
	if err != nil {
		return err
	}
	c, err := claims.Open(claims.Config{
		Dir: dir + "/plugin", Node: node, Spec: spec, Devices: fixed{inventory.Snapshot{Version: 1, Complete: true, Devices: devices}},
		Taints: taints, Log: zap.NewNop(), Metrics: metrics.New("test"),
	})
	for i := 0; err == nil; i++ {
		claim := contender(i % fourPorts)
		if err = c.Prepare(context.Background(), claim).Err; err == nil {
			err = c.Unprepare(context.Background(), objectOf(claim))
		}
	}
	return err
}

// A driver that is killed at any time leaves a file that the next one reads. Its claim can be prepared and
// unprepared, and no other claim gets its devices before.
func TestKilled(t *testing.T) {
	r := newRig(t, somePorts()...)
	found := map[string]int{}
	for i := range 40 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), workIn+"="+filepath.Dir(r.dir))
		var stderr strings.Builder
		child.Stderr = &stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// The child has begun when it has prepared a claim; then it is killed at a random time.
		for began := time.Now(); r.file() == "" && time.Since(began) < 10*time.Second; {
		}
		for until := time.Now().Add(time.Duration(rand.IntN(5000)) * time.Microsecond); time.Now().Before(until); {
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // killed
		if stderr.Len() > 0 {
			t.Fatalf("child: %s", stderr.String())
		}
		if _, err := r.Holdings(t.Context()); err != nil {
			t.Fatal(err)
		}
		switch n := strings.Count(r.file(), `"uid"`); n {
		case 0, 1:
			found[fmt.Sprint(n)]++
		default:
			t.Fatalf("file: found %d claims, want one at most: %s", n, r.file())
		}
		if _, err := os.Lstat(filepath.Join(r.dir, "claims.json.new")); err == nil {
			found["new file"]++
		}
		// The kubelet repeats the call of the claim, whichever it was. The claim prevents its neighbours.
		for n := range fourPorts {
			c := contender(n)
			if !strings.Contains(r.file(), `"name": "`+c.Name+`"`) {
				continue
			}
			r.refuseNow(contender((n+1)%fourPorts), "is prepared for claim default/"+c.Name)
			if i%2 == 0 {
				r.prepare(c)
				r.injects(devicesOf(c, fmt.Sprint("dfl-port.", n), fmt.Sprint("dfl-port.", (n+1)%fourPorts))...)
			}
			r.unprepare(c)
		}
		// A CDI device whose record is gone is removed by the next check.
		r.prepare(contender(0))
		r.unprepare(contender(0))
		if text := r.file() + r.specText(); text != "" {
			t.Fatalf("files without claims: found %s, want none", text)
		}
	}
	t.Logf("found %v", found)
	if found["1"] == 0 {
		t.Error("no child was killed while it had a claim")
	}
}

// Two instances on one node, each with several calls at once: no device is given to two claims, and each
// claim that is prepared is in the spec.
func TestTwoInstances(t *testing.T) {
	r := newRig(t, somePorts()...)
	instances := []*rig{r, r.peer()}
	instances[1].snapshots = latest.New(func() inventory.Snapshot { s, _ := r.Latest(); return s }())
	for _, i := range instances {
		i.start()
	}
	var mu sync.Mutex
	owners, served := map[string]string{}, 0
	var calls sync.WaitGroup
	for n := range 2 * fourPorts {
		c := contender(n % fourPorts)
		if n >= fourPorts { // a claim for one device
			c = claimOf(fmt.Sprint("q", n), result("a", portID(n-fourPorts)))
		}
		calls.Go(func() {
			for turn := range 15 {
				i := instances[(n+turn)%2]
				got := i.Prepare(t.Context(), c)
				if got.Err != nil {
					if !strings.Contains(got.Err.Error(), "is prepared for claim ") {
						t.Error(got.Err)
					}
					continue
				}
				mu.Lock()
				served++
				for _, d := range c.Status.Allocation.Devices.Results {
					if o := owners[d.Device]; o != "" {
						t.Errorf("%s: given to %s and %s", d.Device, o, c.Name)
					}
					owners[d.Device] = c.Name
				}
				mu.Unlock()
				for _, d := range c.Status.Allocation.Devices.Results {
					if text := r.specText(); !strings.Contains(text, `"`+cdiName(c, d)+`"`) {
						t.Errorf("spec: found %s, want %s", text, cdiName(c, d))
					}
				}
				mu.Lock()
				for _, d := range c.Status.Allocation.Devices.Results {
					owners[d.Device] = ""
				}
				mu.Unlock()
				if err := instances[(n+turn+1)%2].Unprepare(t.Context(), objectOf(c)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	if served == 0 {
		t.Error("no claim was served")
	}
	if text := r.file() + r.specText(); text != "" {
		t.Errorf("files without claims: found %s, want none", text)
	}
}

// After a reboot no container runs, and drivers may number the nodes in another order. So no claim has a
// device until it is prepared again; its devices are still held, without the former nodes.
func TestReboot(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
	one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
	two.Status.Allocation.Devices.Config = append(two.Status.Allocation.Devices.Config, wantAFU(afu))
	r.prepare(one)
	r.prepare(two)
	if err := os.RemoveAll(r.cdi); err != nil {
		t.Fatal(err)
	}
	r.boot = "second"
	r.open()
	r.holds("3b:00.0", "5e:00.0")
	other := port("5e:00.0", 0)
	other.AFUID = strings.Repeat("0", 32)
	r.set(port("3b:00.0", 1), other)
	r.refuseNow(two, "found AFU "+other.AFUID+", want "+afu)
	r.injects()
	r.prepare(one)
	r.injects(devicesOf(one, "dfl-port.1")...)
	r.holds("3b:00.0 dfl-port.1 240:1", "5e:00.0")
	r.unprepare(two)
	r.unprepare(one)
	r.holds()
}
