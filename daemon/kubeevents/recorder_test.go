package kubeevents_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/kubeevents"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

const (
	onNode = "default Node/worker-3 worker-3 "
	onPod  = "work Pod/job uid-1 "
)

// TestDeviceLifecycle checks the Events for a device from when it is added until it is released.
func TestDeviceLifecycle(t *testing.T) {
	story(t, func(r *rig) {
		r.SetPod("work", "job", "uid-1")
		r.shows()
		r.shows(device("3b:00.0"))
		r.hold("3b:00.0", "work/job/main")
		r.shows(device("3b:00.0", "port-ap6"))
		r.shows(device("3b:00.0", "recovering=port-ap6"))
		r.shows(device("3b:00.0"))
		r.shows(device("3b:00.0", "removed-in-use"))
		r.shows(device("3b:00.0", "recovering=removed-in-use"))
		r.shows(device("3b:00.0"))
		r.shows(device("3b:00.0", "removed-in-use"))
		r.shows()
		const fpga = " FPGA device 3b:00.0 (b-com.com/accelerator)"
		want := []string{ // some of these are in docs/events.md
			onNode + "Normal DeviceAdded x1" + fpga + " was added at 2000-01-01T00:00:30Z: healthy.",
			onNode + "Warning DeviceUnhealthy x1" + fpga + " has been unhealthy (port-ap6) since 2000-01-01T00:01:00Z." +
				" It is not allocated to any other container. The pod work/job uses it and keeps running.",
			onPod + "Warning DeviceUnhealthy x1" + fpga + " of container main has been unhealthy (port-ap6) since 2000-01-01T00:01:00Z." +
				" The pod keeps running. No other pod gets the device until this pod has ended and the device has recovered.",
			onNode + "Normal DeviceRecovered x2" + fpga + " recovered at 2000-01-01T00:03:30Z after 30s: healthy.",
			onPod + "Normal DeviceRecovered x2" + fpga + " of container main recovered at 2000-01-01T00:03:30Z after 30s: healthy.",
			onNode + "Warning DeviceRemovedInUse x2" + fpga + " has been missing from the node since 2000-01-01T00:04:00Z, and is still in use." +
				" It is not allocated to any other container. The pod work/job uses it and keeps running.",
			onPod + "Warning DeviceRemovedInUse x2" + fpga + " of container main has been missing from the node since 2000-01-01T00:04:00Z." +
				" The pod keeps running without it. No other pod gets the device until this pod has ended.",
			onNode + "Normal DeviceReturned x1" + fpga + " returned at 2000-01-01T00:03:00Z after 30s:" +
				" unhealthy (recovering from removed-in-use). The pod work/job uses it and keeps running.",
			onPod + "Normal DeviceReturned x1" + fpga + " of container main returned at 2000-01-01T00:03:00Z after 30s:" +
				" unhealthy (recovering from removed-in-use). Device nodes that the pod has open no longer work: it must open them again or be restarted.",
			onNode + "Normal DeviceReleased x1" + fpga + ", which was removed from the node, was released at 2000-01-01T00:04:30Z after 30s.",
		}
		compare.Values(r.t, "events", want, r.each(simapiserver.Event.String))
		r.counted(map[string]int{kubeevents.Sent: 14})
		r.logged()
		e := r.Events()[3]
		if first, last := e.FirstTimestamp.Format(time.TimeOnly), e.LastTimestamp.Format(time.TimeOnly); first != "00:02:01" || last != "00:03:31" {
			r.t.Errorf("found first %s and last %s, want 00:02:01 and 00:03:31", first, last)
		}
		origin := []string{e.Source.Component, e.Source.Host, e.ReportingComponent, e.ReportingInstance, e.InvolvedObject.APIVersion}
		compare.Values(r.t, "origin", []string{"accelerator-device-plugin", node, "accelerator-device-plugin", node, "v1"}, origin)
	})
}

// A function on vfio-pci has Events only while there is a rule for it.
func TestFunctionsWithoutRule(t *testing.T) {
	story(t, func(r *rig) {
		function := func(as string, reasons ...string) *inventory.Device {
			d := device("3b:00.0", reasons...)
			d.OnlyByRule, d.OfferedAs = true, as
			return d
		}
		r.shows()
		r.shows(function(""))
		r.shows(function("", "pci-gone"))
		r.shows()
		r.shows(function(""))
		r.logged()
		compare.Empty(r.t, "Events", r.Events())
		r.shows(function(resource))
		r.shows(function(resource, "pci-gone"))
		r.shows(function("", "pci-gone"))
		r.shows(function(""))
		r.shows()
		reason := func(e simapiserver.Event) string { return e.Reason }
		compare.Values(r.t, "events", []string{"DeviceAdded", "DeviceUnhealthy"}, r.each(reason))
	})
}

// TestReasons checks which Events each change of a device causes, on the node and on pods.
func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	warnings := []string{"DeviceUnhealthy", "DeviceDegraded", "DeviceRemovedInUse", "DeviceReplacedInUse", "DeviceHeldTwice"} // other Warnings are marked "!"
	for _, tc := range []struct {
		name  string
		steps [][]string // the device's reasons; nil: not listed; {}: healthy
		want  []string   // "+": also on its pod
	}{
		{"healthy from the start", [][]string{{}}, nil},
		{"unhealthy from the start", [][]string{{"port-ap6"}}, []string{"DeviceUnhealthy+"}},
		{"degraded from the start", [][]string{{"degraded:link-speed"}}, []string{"DeviceDegraded"}},
		{"excluded from the start", [][]string{{"excluded"}}, nil},
		{"gone in use at the start", [][]string{{"removed-in-use"}}, []string{"DeviceRemovedInUse+"}},
		{"held as another resource at the start", [][]string{{"replaced-in-use"}}, nil},
		{"held as another resource from the start, then free", [][]string{{"replaced-in-use"}, {}}, nil},
		{"plugged in", [][]string{nil, {}}, []string{"DeviceAdded"}},
		{"plugged in, unbound", [][]string{nil, {"driver-unbound"}, {}}, []string{"DeviceAdded", "DeviceUnhealthy+", "DeviceRecovered+"}},
		{"plugged in, slow", [][]string{nil, {"degraded:link-speed"}}, []string{"DeviceAdded", "DeviceDegraded"}},
		{"worse", [][]string{{}, {"degraded:link-speed"}, {"link-down"}, {"afu-dead", "link-down"}, {"link-down"}},
			[]string{"DeviceDegraded", "DeviceUnhealthy+ x2"}},
		{"worse while degraded", [][]string{{}, {"degraded:a"}, {"degraded:a", "degraded:b"}, {"degraded:b"}}, []string{"DeviceDegraded x2"}},
		{"unhealthy for a moment", [][]string{{}, {"recovering=port-ap6"}, {}}, []string{"DeviceUnhealthy+", "DeviceRecovered+"}},
		{"unhealthy, degraded, healthy", [][]string{{"port-ap6"}, {"degraded:link-speed"}, {}}, []string{"DeviceUnhealthy+", "DeviceRecovered+ x2"}},
		{"pulled", [][]string{{}, nil}, []string{"DeviceRemoved"}},
		{"pulled, holder not known", [][]string{{}, {"removed"}, nil}, []string{"DeviceRemoved!"}},
		{"pulled, holder known later", [][]string{{}, {"removed"}, {"removed-in-use"}}, []string{"DeviceRemoved!", "DeviceRemovedInUse+"}},
		{"pulled and back", [][]string{{}, {"removed-in-use"}, {}}, []string{"DeviceRemovedInUse+", "DeviceReturned+"}},
		{"pulled and back, broken", [][]string{{}, {"removed-in-use"}, {"port-ap6", "recovering=removed-in-use"}, {}},
			[]string{"DeviceRemovedInUse+", "DeviceReturned+", "DeviceUnhealthy+", "DeviceRecovered+"}},
		{"replaced", [][]string{{}, {"removed-in-use"}, {"replaced-in-use"}, {}},
			[]string{"DeviceRemovedInUse+", "DeviceReplacedInUse+", "DeviceReleased"}},
		{"replaced by a broken one", [][]string{{}, {"removed-in-use"}, {"port-ap6", "replaced-in-use"}, {"port-ap6"}},
			[]string{"DeviceRemovedInUse+", "DeviceReplacedInUse+", "DeviceReleased", "DeviceUnhealthy+"}},
		{"replaced and pulled", [][]string{{"removed-in-use"}, {"replaced-in-use"}, nil},
			[]string{"DeviceRemovedInUse+", "DeviceReplacedInUse+", "DeviceReleased"}},
		{"another resource", [][]string{{}, {"moving"}, {"replaced-in-use"}, {}}, []string{"DeviceMoving"}},
		{"healed on the way to another resource", [][]string{{"port-ap6"}, {"moving", "port-ap6"}, {"moving"}, {}},
			[]string{"DeviceUnhealthy+", "DeviceMoving", "DeviceRecovered+"}},
		{"healed with the move", [][]string{{"degraded:a"}, {"moving", "degraded:a"}, {}}, []string{"DeviceDegraded", "DeviceMoving", "DeviceRecovered"}},
		{"broken on the way to another resource", [][]string{{}, {"moving"}, {"moving", "port-ap6"}, {"port-ap6"}, {}},
			[]string{"DeviceMoving", "DeviceUnhealthy+", "DeviceRecovered+"}},
		{"excluded", [][]string{{}, {"excluded"}, {"recovering=excluded"}, {}}, []string{"DeviceExcluded", "DeviceRecovered"}},
		{"held by two pods", [][]string{{}, {"held-twice"}, {"held-twice", "port-ap6"}, {}}, []string{"DeviceUnhealthy+ x2", "DeviceHeldTwice+", "DeviceRecovered+"}},
		{"cordoned", [][]string{{}, {"cordoned"}, {"cordoned", "excluded"}, {"excluded"}, {}},
			[]string{"DeviceCordoned", "DeviceExcluded", "DeviceRecovered"}},
		{"cordoned from the start", [][]string{{"cordoned"}, {}}, []string{"DeviceRecovered"}},
		{"broken, cordoned, healthy again", [][]string{{"port-ap6"}, {"cordoned", "port-ap6"}, {"cordoned", "recovering=port-ap6"}, {"cordoned"}, {}},
			[]string{"DeviceUnhealthy+ x2", "DeviceCordoned", "DeviceRecovered+"}},
		{"excluded, then broken", [][]string{{"excluded"}, {"port-ap6"}}, []string{"DeviceUnhealthy+"}},
		{"excluded while broken", [][]string{{"port-ap6"}, {"excluded", "port-ap6"}, {"excluded"}}, []string{"DeviceUnhealthy+ x2", "DeviceExcluded"}},
	} {
		storyOf(t, tc.name, func(r *rig) {
			r.SetPod("work", "job", "uid-1")
			r.hold("3b:00.0", "work/job/main")
			for _, reasons := range tc.steps {
				if reasons == nil {
					r.shows()
					continue
				}
				r.shows(device("3b:00.0", reasons...))
			}
			var got []string
			for _, e := range r.Events() {
				reason := e.Reason
				seen[reason] = true
				if last := len(got) - 1; e.InvolvedObject.Kind == "Pod" {
					if !strings.HasPrefix(got[last], reason) {
						r.t.Fatalf("%s on the pod after %s", reason, got[last])
					}
					got[last] = strings.Replace(got[last], reason, reason+"+", 1)
					continue
				}
				if warns := e.Type == "Warning"; warns != slices.Contains(warnings, e.Reason) {
					reason += "!"
				}
				if e.Count > 1 {
					reason += fmt.Sprintf(" x%d", e.Count)
				}
				got = append(got, reason)
			}
			compare.Values(r.t, "events", tc.want, got)
		})
	}
	seen["DeviceMissing"] = true // covered by TestMissing
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(Device[A-Za-z]+)`").FindAllStringSubmatch(string(must.Value(os.ReadFile("../../docs/events.md"))(t)), -1) {
		rows = append(rows, m[1])
	}
	slices.Sort(rows)
	compare.Values(t, "rows in docs/events.md", slices.Sorted(maps.Keys(seen)), rows)
}

// A missing card causes one Event on the node.
func TestMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		since := time.Now().UTC()
		one, two := ledger.Missing{Card: "5e:00.0", Since: since}, ledger.Missing{Card: "af:00.0", Since: since}
		r := start(t)
		r.shows(device("3b:00.0"))
		r.missing.Store([]ledger.Missing{one})
		after(time.Minute)
		r.missing.Store([]ledger.Missing{one, two})
		after(time.Minute)
		r.missing.Store([]ledger.Missing{two})
		after(time.Minute)
		r.events("two cards", onNode+"Warning DeviceMissing x1", onNode+"Warning DeviceMissing x1")
		want := "FPGA device 5e:00.0 has been missing since " + since.Format(time.RFC3339) +
			": it has not been found since the node or the plugin was last started, or it had a fault and then left the node."
		compare.Equal(t, "message", want, r.Events()[0].Message)
	})
}

// A state that lasts less than a second doesn't cause an Event.
func TestSettles(t *testing.T) {
	story(t, func(r *rig) {
		r.shows()
		r.publish(true, device("3b:00.0", "driver-unbound"))
		after(10 * time.Millisecond)
		r.publish(true, device("3b:00.0", "unreadable=id"))
		after(10 * time.Millisecond)
		r.shows(device("3b:00.0"))
		r.events("bound", onNode+"Normal DeviceAdded x1")
	})
}

// Cards that are read late at startup count as found, not as added.
func TestSlowStart(t *testing.T) {
	story(t, func(r *rig) {
		r.publish(false, device("3b:00.0"))
		after(5 * time.Second)
		r.shows(device("3b:00.0"), device("3c:00.0"))
		r.events("complete")
		r.shows(device("3b:00.0"), device("3c:00.0"), device("3d:00.0"))
		r.events("plugged in", onNode+"Normal DeviceAdded x1")
	})
}

// A mode change neither causes nor repeats Events. A restart repeats the Events of devices that aren't healthy.
func TestGenerations(t *testing.T) {
	story(t, func(r *rig) {
		r.shows(device("3b:00.0"), device("3b:00.0-p1"), device("3c:00.0", "port-ap6"))
		want := []string{onNode + "Warning DeviceUnhealthy x1"}
		r.events("started", want...)
		r.generation()
		r.publish(false, device("3b:00.0"))
		after(time.Second)
		r.shows(device("3b:00.0"), device("3c:00.0", "port-ap6"))
		r.events("another mode", want...)
		r.generation()
		r.shows(&inventory.Device{ID: "0"})
		r.events("without cards", want...)
		r.generation()
		r.shows(device("3b:00.0"), device("3c:00.0", "port-ap6"))
		want[0] = onNode + "Warning DeviceUnhealthy x2" // found again
		r.events("cards again", want...)
		r.shows(device("3b:00.0"), device("3c:00.0"))
		want = append(want, onNode+"Normal DeviceRecovered x1")
		r.events("recovered there", want...)
		r.shows(device("3b:00.0"), device("3c:00.0", "port-ap6"))
		want[0] = onNode + "Warning DeviceUnhealthy x3"
		r.generation()
		r.shows(device("3c:00.0-p1", "removed-in-use"))
		want = append(want, onNode+"Normal DeviceRemoved x1", onNode+"Normal DeviceRemoved x1", onNode+"Warning DeviceRemovedInUse x1")
		r.events("pulled just then", want...)
		r.end()
		r.source = newSource()
		r.run()
		r.shows(device("3b:00.0"), device("3c:00.0", "port-ap6"))
		r.events("another daemon", append(want, onNode+"Warning DeviceUnhealthy x1")...)
	})
}

// If holders aren't known at first, pods get their Events later, with the state at that time.
func TestHoldersLate(t *testing.T) {
	for _, tc := range []struct {
		name  string
		then  func(*rig) // makes the holders known
		steps []*inventory.Device
		want  []string // on the pod
	}{
		{"kubelet was down", func(r *rig) { r.locked(func() { r.asking = nil }) }, nil, []string{onPod + "Warning DeviceUnhealthy x1"}},
		{"allocated just before", func(r *rig) {
			r.locked(func() { r.asking = nil })
			r.hold("3b:00.0")
			after(30 * time.Second)
			r.hold("3b:00.0", "work/job/main")
		}, nil, []string{onPod + "Warning DeviceUnhealthy x1"}},
		{"recovered meanwhile", func(r *rig) { r.locked(func() { r.asking = nil }) }, []*inventory.Device{device("3b:00.0")},
			[]string{onPod + "Normal DeviceRecovered x1"}},
		{"not listed meanwhile", func(r *rig) { r.locked(func() { r.asking = nil }) }, []*inventory.Device{device("3c:00.0")}, nil},
		{"answers too late", func(r *rig) { after(time.Hour); r.locked(func() { r.asking = nil }) }, nil, nil},
		{"free", func(r *rig) { r.locked(func() { r.asking, r.held = nil, nil }) }, nil, nil},
	} {
		storyOf(t, tc.name, func(r *rig) {
			r.SetPod("work", "job", "uid-1")
			r.hold("3b:00.0", "work/job/main")
			r.shows(device("3b:00.0"))
			r.shows(device("3b:00.0", "port-ap6"))
			if e := r.Events()[0]; !strings.HasSuffix(e.Message, "It is not known which pod uses it.") {
				r.t.Errorf("message %q, want it to end with an unknown holder", e.Message)
			}
			for _, d := range tc.steps {
				r.shows(d)
			}
			tc.then(r)
			after(time.Minute)
			var got []string
			for _, e := range r.Events() {
				if e.InvolvedObject.Kind == "Pod" {
					got = append(got, short(e))
				}
			}
			compare.Values(r.t, "on the pod", tc.want, got)
		}, func(r *rig) { r.asking = errNoAnswer })
	}
}

// All of a pod's containers are in one Event, and each pod has its own.
func TestManyHolders(t *testing.T) {
	story(t, func(r *rig) {
		r.SetPod("work", "job", "uid-1")
		r.SetPod("other", "job", "uid-2")
		r.hold("3b:00.0", "work/job/a", "work/job/b", "other/job/c", "malformed")
		r.shows(device("3b:00.0"))
		r.shows(device("3b:00.0", "port-ap6"))
		r.events("failed", onNode+"Warning DeviceUnhealthy x1", "other Pod/job uid-2 Warning DeviceUnhealthy x1", onPod+"Warning DeviceUnhealthy x1")
		compare.Contains(r.t, "message", "of container a, b has been", r.Events()[2].Message)
	})
}

// A message contains the names of eight pods, and how many more there are.
func TestVeryManyHolders(t *testing.T) {
	story(t, func(r *rig) {
		var holders []string
		for i := range 64 {
			holders = append(holders, fmt.Sprintf("%s/%02d-%s/main", strings.Repeat("n", 63), i, strings.Repeat("p", 250)))
		}
		r.hold("3b:00.0", holders...)
		r.shows(device("3b:00.0"))
		r.shows(device("3b:00.0", "port-ap6"))
		e := r.Events()[0]
		if !strings.Contains(e.Message, "07-ppp") || !strings.HasSuffix(e.Message, "p, 56 more use it and keep running.") || len(e.Message) > 3000 {
			r.t.Errorf("message: found %d bytes: %q", len(e.Message), e.Message)
		}
	})
}

// When a device is removed, the message says that it had no holder only if that is known. Without a grace period, a
// device is immediately removed from the list even if it is held.
func TestRemovedWithoutGrace(t *testing.T) {
	for _, tc := range []struct {
		name   string
		asking error
		want   string
	}{
		{"known", nil, "No container uses it."},
		{"not known", errNoAnswer, "It is not known which pod uses it."},
	} {
		storyOf(t, tc.name, func(r *rig) {
			r.shows(device("3b:00.0"))
			r.shows()
			r.events("removed", onNode+"Normal DeviceRemoved x1")
			if e := r.Events()[0]; !strings.HasSuffix(e.Message, tc.want) {
				r.t.Errorf("message %q, want it to end with %q", e.Message, tc.want)
			}
		}, func(r *rig) { r.asking = tc.asking })
	}
}
