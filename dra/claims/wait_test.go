package claims_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/task"
)

// Prepare waits for a device that is listed but not usable, and for the first complete snapshot.
func TestWaits(t *testing.T) {
	nodeless := sick(port("3b:00.0", 0), "node-missing")
	nodeless.Nodes = nil
	never := []*inventory.Device{sick(port("3b:00.0", 0), "pr-error", "ap6")}
	for _, tc := range []struct {
		name   string
		before []*inventory.Device // nil: the snapshot is not complete
		after  []*inventory.Device // after 10 s
		limit  time.Duration       // of the call; 0: none
		took   time.Duration
		want   string // in the error; "": served
	}{
		{"healthy again", []*inventory.Device{sick(port("3b:00.0", 0), "recovering=pr-error")}, []*inventory.Device{port("3b:00.0", 0)}, 0, 10 * time.Second, ""},
		{"degraded", never, []*inventory.Device{func() *inventory.Device { d := port("3b:00.0", 0); d.Health = inventory.Degraded; return d }()}, 0, 10 * time.Second, ""},
		{"complete", nil, []*inventory.Device{port("3b:00.0", 0)}, 45 * time.Second, 10 * time.Second, ""},
		{"never complete", nil, nil, 0, 30 * time.Second, "claim default/one: the devices of the node have not all been read yet (after 30s)"},
		{"never healthy", never, never, 45 * time.Second, 30 * time.Second,
			"device pci-0000-3b-00-0 (3b:00.0) of request a: is unhealthy (pr-error, ap6), which the claim does not tolerate (after 30s)"},
		{"short call", never, never, 25 * time.Second, 20 * time.Second, "does not tolerate (after 20s)"},
		{"very short call", never, never, time.Second, 0, "does not tolerate (after 0s)"},
		{"another in its place", []*inventory.Device{sick(port("3b:00.0", 0), "replaced-in-use")}, never, 0, 30 * time.Second, "unhealthy (pr-error, ap6)"},
		{"withheld", never, []*inventory.Device{sick(port("3b:00.0", 0), "node-in-use")}, 0, 30 * time.Second, "is unhealthy (node-in-use), so its device nodes are withheld"},
		{"no nodes", never, []*inventory.Device{nodeless}, 0, 30 * time.Second, "is unhealthy, and its device nodes are not known"},
		{"leaves", never, []*inventory.Device{}, 0, 10 * time.Second, "has left the node"},
		{"missing from the start", []*inventory.Device{}, []*inventory.Device{port("3b:00.0", 0)}, 0, 0, "has left the node"},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			r := newRig(t, tc.before...)
			if tc.before == nil {
				r.snapshots.Store(inventory.Snapshot{Devices: []*inventory.Device{port("3b:00.0", 5)}}) // of the previous generation
			}
			ctx, cancel := context.WithCancel(t.Context())
			if tc.limit > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), tc.limit)
			}
			defer cancel()
			if tc.after != nil {
				time.AfterFunc(10*time.Second, func() { r.set(tc.after...) })
			}
			began := time.Now()
			c := claimOf("one", result("a", "3b:00.0"))
			got := r.Prepare(ctx, c)
			compare.Equal(t, "took", tc.took, time.Since(began))
			switch {
			case tc.want == "":
				if diff := cmp.Diff(answer(c), got); got.Err != nil || diff != "" {
					t.Errorf("%v, answer (-want +got):\n%s", got.Err, diff)
				}
				r.injects(devicesOf(c, "dfl-port.0")...)
			case got.Err == nil || !strings.Contains(got.Err.Error(), tc.want):
				t.Errorf("error %v, want %s", got.Err, tc.want)
			case tc.want != "has left the node" && r.file() != "":
				t.Errorf("found the file %s, want none", r.file())
			}
			for _, l := range r.logs.TakeAll() {
				compare.Equal[any](t, "lasted_ms", float64(tc.took.Milliseconds()), l.ContextMap()["lasted_ms"])
			}
			time.Sleep(10 * time.Second) // of the bubble: AfterFunc must end
		})
	}
}

// A device with a taint is given at once if the claim tolerates the taint, or has admin access. Its nodes must be known
// and not withheld.
func TestTolerations(t *testing.T) {
	exists := func(effect resourceapi.DeviceTaintEffect) resourceapi.DeviceToleration {
		return resourceapi.DeviceToleration{Key: "accelerator.b-com.com/unhealthy", Operator: resourceapi.DeviceTolerationOpExists, Effect: effect}
	}
	value := resourceapi.DeviceToleration{Key: "accelerator.b-com.com/unhealthy", Value: "pr-error"}
	nodeless := sick(port("3b:00.0", 0), "pr-error")
	nodeless.Nodes = nil
	for _, tc := range []struct {
		name    string
		device  *inventory.Device
		tolerat []resourceapi.DeviceToleration
		admin   bool
		served  bool
	}{
		{"none", sick(port("3b:00.0", 0), "pr-error"), nil, false, false},
		{"everything", sick(port("3b:00.0", 0), "pr-error"), []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}, false, true},
		{"the value", sick(port("3b:00.0", 0), "pr-error"), []resourceapi.DeviceToleration{value}, false, true},
		{"another value", sick(port("3b:00.0", 0), "ap6"), []resourceapi.DeviceToleration{value}, false, false},
		{"another effect", sick(port("3b:00.0", 0), "pr-error"), []resourceapi.DeviceToleration{exists(resourceapi.DeviceTaintEffectNoSchedule)}, false, false},
		{"the effect", sick(port("3b:00.0", 0), "recovering=ap6"), []resourceapi.DeviceToleration{value, exists(resourceapi.DeviceTaintEffectNoSchedule)}, false, true},
		{"admin access", sick(port("3b:00.0", 0), "pr-error"), nil, true, true},
		{"withheld", sick(port("3b:00.0", 0), "node-in-use"), []resourceapi.DeviceToleration{exists("")}, false, false},
		{"withheld, admin access", sick(port("3b:00.0", 0), "replaced-in-use"), nil, true, false},
		{"node of another device", sick(port("3b:00.0", 0), "node-mismatch"), []resourceapi.DeviceToleration{exists("")}, false, false},
		{"node of another device, admin access", sick(port("3b:00.0", 0), "node-mismatch"), nil, true, false},
		{"another port", sick(port("3b:00.0", 0), "port-id-conflict"), []resourceapi.DeviceToleration{exists("")}, false, false},
		{"nodes not known", nodeless, []resourceapi.DeviceToleration{exists("")}, true, false},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			r := newRig(t, tc.device)
			one := result("a", "3b:00.0")
			one.Tolerations, one.AdminAccess = tc.tolerat, &tc.admin
			c, began := claimOf("one", one), time.Now()
			if !tc.served {
				r.refuse(c, "(after 30s)")
				return
			}
			r.prepare(c)
			compare.Equal(t, "took", 0, time.Since(began))
		})
	}
}

// A device that an administrator has taken out of service is never prepared for a claim, whatever the claim tolerates,
// except with admin access. When the device is back in service, a waiting claim gets it.
func TestOutOfService(t *testing.T) {
	everything := result("a", "3b:00.0")
	everything.Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	for _, tc := range []struct {
		name    string
		reasons []string
		want    string
	}{
		{"cordoned", []string{inventory.ReasonCordoned}, "of request a: is cordoned: uncordon it, or delete the pod so that it gets another device (after 30s)"},
		{"excluded", []string{inventory.ReasonExcluded}, "of request a: is excluded by the settings of this node: delete the pod so that it gets another device (after 30s)"},
		{"broken and cordoned", []string{"port-ap6", inventory.ReasonCordoned}, "is cordoned"},
		{"broken, excluded and cordoned", []string{"port-ap6", inventory.ReasonExcluded, inventory.ReasonCordoned}, "is cordoned"},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			r := newRig(t, sick(port("3b:00.0", 0), tc.reasons...))
			r.refuse(claimOf("one", everything), tc.want)
			r.refuse(claimOf("one", result("a", "3b:00.0")), tc.want)
			compare.Equal(t, "file", "", r.file())
			watch := claimOf("watch", admin(everything))
			r.prepare(watch)
			r.injects(devicesOf(watch, "dfl-port.0")...)

			time.AfterFunc(10*time.Second, func() { r.set(port("3b:00.0", 0)) })
			began, c := time.Now(), claimOf("one", result("a", "3b:00.0"))
			r.prepare(c)
			compare.Equal(t, "prepared after", 10*time.Second, time.Since(began))

			r.set(sick(port("3b:00.0", 0), tc.reasons...))
			r.prepare(c) // keeps its device: its container can start again
			r.injects(append(devicesOf(watch, "dfl-port.0"), devicesOf(c, "dfl-port.0")...)...)
		})
	}
}

// A waiting claim does not delay other claims. When its call ends, nothing is recorded.
func TestWaitingDelaysNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sick(port("3b:00.0", 0), "pr-error"), port("5e:00.0", 1))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Prepare(ctx, claimOf("one", result("a", "3b:00.0"))).Err }()
		synctest.Wait()
		began, c := time.Now(), claimOf("two", result("a", "5e:00.0"))
		r.prepare(c)
		if _, err := r.Holdings(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("another claim took %s, %v, want no wait", time.Since(began), err)
		}
		cancel()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "unhealthy (pr-error)") || time.Since(began) > 0 {
			t.Errorf("after %s: %v, want the reason at once", time.Since(began), err)
		}
		r.set(port("3b:00.0", 0), port("5e:00.0", 1))
		r.holds("5e:00.0 dfl-port.1 240:1")
	})
}

// A call that the kubelet has given up records nothing, because Unprepare may already have been called.
func TestCanceled(t *testing.T) {
	for _, tc := range []struct {
		name    string
		devices []*inventory.Device
	}{{"would be prepared", []*inventory.Device{port("3b:00.0", 0)}}, {"would wait", nil}} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.devices...)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 20 { // select chooses among ready channels
				if got := r.Prepare(ctx, claimOf("one", result("a", "3b:00.0"))); got.Err == nil {
					t.Fatal("found no error, want one")
				}
			}
			if r.file() != "" || r.specText() != "" {
				t.Errorf("found files %s%s, want none", r.file(), r.specText())
			}
		})
	}
}

// While another instance has the lock, calls wait for at most 3 s, or until their context ends. Holdings
// needs no lock.
func TestLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, one, two := twoCards(t)
		r.prepare(one)
		err := claims.WithLock(r.dir, func() {
			began := time.Now()
			r.refuse(two, filepath.Join(r.dir, "claims.lock")+": held by another process")
			compare.Error(t, "Unprepare", "claim default/one: "+r.dir+"/claims.lock", r.Unprepare(t.Context(), objectOf(one)))
			compare.Equal(t, "two calls", 6*time.Second, time.Since(began))
			r.holds("3b:00.0 dfl-port.0 240:0")
			ended := make(chan error)
			go func() { ended <- r.Prepare(t.Context(), two).Err }()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := r.Unprepare(ctx, objectOf(one)); err == nil || time.Since(began) != 7*time.Second {
				t.Errorf("after %s: %v, want an error after a second", time.Since(began)-6*time.Second, err)
			}
			compare.Error(t, "Prepare", "", <-ended)
		})
		must.Succeed(t, err)
		r.prepare(two)
		r.unprepare(one)
		r.injects(devicesOf(two, "dfl-port.1")...)
	})
}

// start runs the instance until the test ends, or until the returned function is called.
func (r *rig) start() (stop func()) { return task.Run(r.t, r.Run) }

// The spec follows the devices and the claims after the first complete snapshot.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
		c := claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.0"))
		r.prepare(c)
		both, second := devicesOf(c, "dfl-port.0", "dfl-port.1"), devicesOf(c, "", "dfl-port.1")[1:]
		whole := r.specText()

		// The next instance leaves the spec as it is until it knows the devices.
		next := *r
		next.snapshots = newSnapshots()
		next.open()
		next.start()
		synctest.Wait()
		next.injects(both...)
		next.snapshots.Store(inventory.Snapshot{Devices: []*inventory.Device{port("5e:00.0", 9)}})
		time.Sleep(20 * time.Second)
		next.injects(both...)
		r = &next
		r.set(port("3b:00.0", 0), port("5e:00.0", 1))
		synctest.Wait()
		r.injects(both...)

		for _, step := range []struct {
			name    string
			devices []*inventory.Device
			want    []string
		}{
			{"unhealthy", []*inventory.Device{sick(port("3b:00.0", 0), "pr-error"), port("5e:00.0", 1)}, both},
			{"removed", []*inventory.Device{tombstone("3b:00.0", "removed-in-use"), port("5e:00.0", 1)}, second},
			{"back with another node", []*inventory.Device{sick(port("3b:00.0", 4), "recovering=removed"), port("5e:00.0", 1)}, devicesOf(c, "dfl-port.4", "dfl-port.1")},
			{"another in its place", []*inventory.Device{sick(port("3b:00.0", 4), "replaced-in-use"), port("5e:00.0", 1)}, second},
			{"node of another holder", []*inventory.Device{sick(port("3b:00.0", 4), "pr-error", "node-in-use"), port("5e:00.0", 1)}, second},
			{"not listed", []*inventory.Device{port("5e:00.0", 1)}, second},
			{"none", nil, nil},
			{"back", []*inventory.Device{port("3b:00.0", 0), port("5e:00.0", 1)}, both},
		} {
			r.set(step.devices...)
			synctest.Wait()
			compare.Values(t, step.name+": CDI devices", step.want, r.injected())
		}
		r.snapshots.Store(inventory.Snapshot{Devices: []*inventory.Device{tombstone("3b:00.0", "removed-in-use"), port("5e:00.0", 1)}})
		synctest.Wait()
		r.injects(second...) // a later snapshot that is not complete counts, too
		r.set(port("3b:00.0", 0), port("5e:00.0", 1))
		synctest.Wait()

		// Changes by others are found within 10 s.
		path := filepath.Join(r.cdi, specName)
		for _, change := range []func() error{
			func() error { return os.Remove(path) },
			func() error { return os.WriteFile(path, []byte("{}"), 0o644) },
			func() error { return os.RemoveAll(r.cdi) },
		} {
			must.Succeed(t, change())
			time.Sleep(10 * time.Second)
			synctest.Wait()
			compare.Values(t, "spec", whole, r.specText())
		}
		compare.NoError(t, "Ready", r.Ready())
		compare.Empty(t, "log", r.lines())
	})
}

// The claims of another instance are in the spec of both, and Added has an element.
func TestRunFindsClaimsOfPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
		r.start()
		synctest.Wait() // for the first check
		p := r.peer()
		one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
		p.prepare(one)
		p.added()
		r.added()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !r.added() {
			t.Error("Added: found no element, want one: another instance has prepared a claim")
		}
		time.Sleep(20 * time.Second)
		if synctest.Wait(); r.added() {
			t.Error("Added: found an element, want none: nothing has changed")
		}
		p.prepare(two)
		r.unprepare(one) // the kubelet may call either instance
		r.injects(devicesOf(two, "dfl-port.1")...)
		p.unprepare(two)
		r.injects()
		r.holds()
	})
}

// An error is logged once, and so is the recovery. In between, claims are refused, and nothing is lost.
func TestSpecCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, one, two := twoCards(t)
		r.prepare(one)
		r.lines()
		r.start()
		synctest.Wait() // for the first check
		path := filepath.Join(r.cdi, specName)
		must.Succeed(t, os.Remove(path))
		must.Succeed(t, os.MkdirAll(path+"/x", 0o700)) // not even root can overwrite it
		time.Sleep(30 * time.Second)
		synctest.Wait()
		r.refuse(two, path)
		compare.Error(t, "Unprepare", path, r.Unprepare(t.Context(), objectOf(one)))
		compare.Error(t, "Ready", path, r.Ready())
		r.holds("3b:00.0 dfl-port.0 240:0", "5e:00.0 dfl-port.1 240:1") // the second was recorded before
		must.Succeed(t, os.RemoveAll(path))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		compare.NoError(t, "Ready", r.Ready())
		r.injects(append(devicesOf(one, "dfl-port.0"), devicesOf(two, "dfl-port.1")...)...)
		var events []string
		for _, line := range r.lines() {
			event, _, _ := strings.Cut(line, " ")
			events = append(events, event)
		}
		compare.Values(t, "log", []string{"cdi.failed", "claim.refused", "cdi.recovered"}, events)
		r.prepare(two)
		r.unprepare(one)
	})
}

// Before the first complete snapshot, Unprepare removes only the record. The first check removes the CDI device.
func TestUnprepareEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, one, two := twoCards(t)
		r.prepare(one, two)
		next := *r
		next.snapshots = newSnapshots()
		next.open()
		next.unprepare(one)
		next.holds("5e:00.0 dfl-port.1 240:1")
		next.injects(append(devicesOf(one, "dfl-port.0"), devicesOf(two, "dfl-port.1")...)...)
		next.start()
		next.set(port("3b:00.0", 0), port("5e:00.0", 1))
		synctest.Wait()
		next.injects(devicesOf(two, "dfl-port.1")...)
	})
}

// The claim of a pod that was deleted by force is unprepared only after its device has been allocated to the next
// claim.
func TestForceDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", 0))
		one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "3b:00.0"))
		r.prepare(one)
		time.AfterFunc(2*time.Second, func() { r.unprepare(one) })
		begin := time.Now()
		r.prepare(two)
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("prepared after %s, want soon after the other claim was unprepared", took)
		}
	})
}

// A device that a pod holds through the device plugin API is not prepared for any claim, whatever the claim tolerates,
// and even if the newest snapshot does not show it yet. Admin access is possible. The error names the pod.
func TestHeldElsewhere(t *testing.T) {
	const as = "b-com.com/accelerator"
	held := func() *inventory.Device {
		d := sick(port("3b:00.0", 0), inventory.ReasonHeldOtherAPI)
		d.OfferedAs = as
		return d
	}
	everything := result("a", "3b:00.0")
	everything.Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	for _, tc := range []struct {
		name   string
		device *inventory.Device
		holder bool // the kubelet names it
		want   string
	}{
		{"newest snapshot", held(), true, "is in use as " + as + ", through the device plugin API, by default/pod/main"},
		{"older snapshot", port("3b:00.0", 0), true, "by default/pod/main (after 30s)"},
		{"kubelet does not answer", held(), false, "is in use as " + as + ", through the device plugin API, by a pod"},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			r := newRig(t, tc.device)
			if tc.holder {
				r.elsewhere = map[string][]inventory.Holding{"3b:00.0": {{As: as, Holders: []string{"default/pod/main"}, OtherAPI: true}}}
			}
			r.refuse(claimOf("one", everything), tc.want)
			r.holds()
			r.prepare(claimOf("admin", admin(everything)))
			r.elsewhere = nil
			r.set(port("3b:00.0", 0))
			r.prepare(claimOf("one", everything))
		})
	}
}
