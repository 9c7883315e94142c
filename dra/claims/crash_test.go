package claims_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// After a crash at any step of Prepare or Unprepare, the next instance completes Prepare, or Unprepare removes
// what is left. The other claim keeps its device.
func TestCrash(t *testing.T) {
	one, two := claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.0")), claimOf("two", result("a", "af:00.0"))
	devices := []*inventory.Device{port("3b:00.0", 0), port("5e:00.0", 1), port("af:00.0", 2)}
	before, after := newRig(t, devices...), newRig(t, devices...)
	before.prepare(two)
	after.prepare(two, one)
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
					must.Succeed(t, os.WriteFile(filepath.Join(r.dir, "claims.json.new"), []byte(tc.next), 0o600))
				}
				if tc.spec != "" {
					must.Succeed(t, os.WriteFile(filepath.Join(r.cdi, specName), []byte(tc.spec), 0o644))
				}
				// Until Unprepare, a device that may have been given to a container is not given to another claim.
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
				r.unprepare(one, two)
				compare.Equal(t, "files without claims", "", r.file()+r.specText())
			})
		}
	}
}

const fourPorts = 4

// somePorts returns the devices 3b:00.0 to 3b:00.0-p3.
func somePorts() (all []*inventory.Device) {
	for i := range fourPorts {
		all = append(all, port(portID(i), i))
	}
	return all
}

func portID(i int) string { return strings.TrimSuffix(fmt.Sprintf("3b:00.0-p%d", i), "-p0") }

// contender returns the claim pN, which wants device N and the next one. So it competes with both neighbours.
func contender(i int) *resourceapi.ResourceClaim {
	return claimOf(fmt.Sprint("p", i), result("a", portID(i)), result("b", portID((i+1)%fourPorts)))
}

type fixed struct{ inventory.Snapshot }

func (f fixed) Latest() (inventory.Snapshot, <-chan struct{}) { return f.Snapshot, nil }

// Two instances run on one node, and each handles several calls at once. No device is given to two claims, and each
// prepared claim is in the spec.
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
				compare.NoError(t, "Unprepare", instances[(n+turn+1)%2].Unprepare(t.Context(), objectOf(c)))
			}
		})
	}
	calls.Wait()
	if served == 0 {
		t.Error("no claim was served")
	}
	compare.Equal(t, "files without claims", "", r.file()+r.specText())
}

// After a reboot no container is running, and kernel drivers may number the nodes in another order. So no claim has a
// device until it is prepared again. Its devices are still held, but without their old nodes.
func TestReboot(t *testing.T) {
	r, one, two := twoCards(t)
	two.Status.Allocation.Devices.Config = append(two.Status.Allocation.Devices.Config, wantAFU(afu))
	r.prepare(one, two)
	must.Succeed(t, os.RemoveAll(r.cdi))
	r.boot = "second"
	r.open()
	r.holds("3b:00.0", "5e:00.0")
	other := port("5e:00.0", 0)
	other.AFUID = strings.Repeat("0", 32)
	r.set(port("3b:00.0", 1), other)
	r.refuseNow(two, "has AFU "+other.AFUID+", but the claim requests "+afu)
	r.injects()
	r.prepare(one)
	r.injects(devicesOf(one, "dfl-port.1")...)
	r.holds("3b:00.0 dfl-port.1 240:1", "5e:00.0")
	r.unprepare(two, one)
	r.holds()
}
