package deviceplugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/kubeevents"
	"b-com.com/accelerator-device-plugin/daemon/nodecondition"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// withEvents is like prepareCluster, but for a daemon that uses the API server only for Events.
func withEvents(t *testing.T) *cluster {
	t.Helper()
	c := prepareCluster(t, func(cfg *config.Config) {
		cfg.Events, cfg.NodeAnnotation = true, false
	})
	c.api.SetPod("default", "job", "uid-of-job")
	return c
}

// awaitEvents waits until the Events are these, formatted as NAMESPACE KIND/NAME UID TYPE REASON DEVICE and sorted.
func (c *cluster) awaitEvents(when string, want ...string) {
	c.t.Helper()
	slices.Sort(want)
	patient.Await(c.t, when, func() error {
		var got []string
		for _, e := range c.api.Events() {
			if e.Reason == string(kubeevents.DeviceMoving) {
				continue // a short change doesn't always cause an Event
			}
			device, _, _ := strings.Cut(e.Message[strings.Index(e.Message, "FPGA device ")+len("FPGA device "):], " ")
			got = append(got, strings.Join([]string{e.Metadata.Namespace, e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, e.InvolvedObject.UID, e.Type, e.Reason, device}, " "))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("events (-want +got):\n%s", diff)
		}
		return nil
	})
}

const (
	aboutNode = "default Node/worker-3 worker-3 "
	aboutPod  = "default Pod/job uid-of-job "
)

// Changes to a device cause Events on the node and on the pod that holds the device, even across a mode change.
func TestEvents(t *testing.T) {
	t.Parallel()
	c := withEvents(t)
	c.cfg.NodeAnnotation = true
	c.ask("")
	c.plug(cardA)
	c.do(c.node.Set(cardA.Address, 0, "errors/errors", "0x4000000000000"))
	c.run()
	c.awaitLists("started", resourceLists{testResource: {"3b:00.0": false, "3b:00.0-p1": true}})
	want := []string{aboutNode + "Warning DeviceUnhealthy 3b:00.0"}
	c.awaitEvents("started", want...)
	c.hold("job", testResource, "3b:00.0-p1")
	c.plug(cardB)
	want = append(want, aboutNode+"Normal DeviceAdded 5e:00.0")
	c.awaitEvents("plugged", want...)
	c.do(c.node.Set(cardA.Address, 1, "errors/errors", "0x4000000000000"))
	want = append(want, aboutNode+"Warning DeviceUnhealthy 3b:00.0-p1", aboutPod+"Warning DeviceUnhealthy 3b:00.0-p1")
	c.awaitEvents("broken", want...)
	c.ask("af")
	c.awaitLine("mode.changed", "new:af")
	c.awaitLists("af", resourceLists{testResource: {"3b:00.0-p1": false}, afAa: {"3b:00.0": false}, afBb: {"5e:00.0": true}})
	c.ask("")
	c.awaitLine("mode.changed", "new:single")
	c.awaitLists("single", resourceLists{testResource: {"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": true}})
	c.do(c.node.Set(cardA.Address, 0, "errors/errors", "0x0"))
	c.do(c.node.Set(cardA.Address, 1, "errors/errors", "0x0"))
	want = append(want, aboutNode+"Normal DeviceRecovered 3b:00.0", aboutNode+"Normal DeviceRecovered 3b:00.0-p1", aboutPod+"Normal DeviceRecovered 3b:00.0-p1")
	c.awaitEvents("healed", want...)
	must.Succeed(t, c.pods.AwaitAsked(t.Context(), c.pods.Asked()+2)) // after a change, the daemon asks about holders again
	c.do(c.node.Unplug(cardA.Address))
	want = append(want, aboutNode+"Warning DeviceRemovedInUse 3b:00.0-p1", aboutPod+"Warning DeviceRemovedInUse 3b:00.0-p1", aboutNode+"Normal DeviceRemoved 3b:00.0")
	c.awaitEvents("pulled", want...)
	c.pods.Release("default", "job")
	c.awaitEvents("released", append(want, aboutNode+"Normal DeviceReleased 3b:00.0-p1")...)
	compare.Empty(t, "log", c.lines("api.lost"))
}

// Without the annotation, the daemon doesn't list nodes, so the account doesn't need permission to do so.
func TestEventsWithoutAnnotation(t *testing.T) {
	t.Parallel()
	c := withEvents(t)
	c.ask("af") // the daemon doesn't follow the annotation
	c.plug(cardA)
	c.do(c.node.Set(cardA.Address, 1, "errors/errors", "0x4000000000000"))
	c.run()
	c.awaitEvents("started", aboutNode+"Warning DeviceUnhealthy 3b:00.0-p1")
	c.awaitLists("started", resourceLists{testResource: {"3b:00.0": true, "3b:00.0-p1": false}})
	c.awaitSeries(`accelerator_api_events_total{result="sent"} 1`)
	for _, request := range c.api.Requests() {
		if !strings.HasPrefix(request, "POST default/events") {
			t.Errorf("request %q", request)
		}
	}
}

// With --node-condition-type, the daemon's Node has the condition. If nothing else needs the API server, the daemon only
// patches the status.
func TestNodeCondition(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, func(cfg *config.Config) { cfg.NodeConditionType, cfg.NodeAnnotation = nodecondition.Type, false })
	c.api.Set(testNode, "u", nil)
	c.plug(cardA)
	c.do(c.node.Break("3b:00.0", "port-ap6"))
	c.run()
	patient.Await(t, "condition", func() error {
		all := c.api.Conditions(testNode)
		if len(all) != 1 || all[0].Type != nodecondition.Type || all[0].Status != "False" || all[0].Message != "1 of 1 card: 3b:00.0 port-ap6" {
			return fmt.Errorf("conditions %+v, want %s that is False", all, nodecondition.Type)
		}
		return nil
	})
	for _, request := range c.api.Requests() {
		compare.Equal(t, "request", "PATCH "+testNode+"/status", request)
	}
}
