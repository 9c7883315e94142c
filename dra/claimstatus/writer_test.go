package claimstatus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/dra/claimstatus"
	draslices "b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/task"
)

const (
	node = "node1"
	afu  = "d8424dc4a4a3c413f89e433683f9040b"
)

var invalid = apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), "", nil)

// rig is a node with prepared claims and an API server.
type rig struct {
	*fake.Clientset
	t         *testing.T
	prepared  *latest.Value[[]claims.Prepared]
	snapshots *latest.Value[inventory.Snapshot]
	logs      *observer.ObservedLogs

	mu    sync.Mutex
	fails error
	at    []time.Time // of each request
}

func newRig(t *testing.T, devices ...*inventory.Device) *rig {
	r := &rig{Clientset: fake.NewClientset(), t: t, prepared: latest.New[[]claims.Prepared](nil), snapshots: latest.New(inventory.Snapshot{})}
	r.PrependReactor("*", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if action.GetVerb() == "create" {
			return false, nil, nil
		}
		r.at = append(r.at, time.Now())
		if patch, ok := action.(clienttesting.PatchAction); ok && r.fails == nil { // as the API server, which the tracker does not do
			var sent, has metav1.PartialObjectMetadata
			object, err := r.Tracker().Get(action.GetResource(), action.GetNamespace(), patch.GetName())
			raw, _ := json.Marshal(object)
			if err = errors.Join(err, json.Unmarshal(raw, &has), json.Unmarshal(patch.GetPatch(), &sent)); err == nil && sent.UID != "" && sent.UID != has.UID {
				return true, nil, invalid
			}
		}
		return r.fails != nil, nil, r.fails
	})
	r.set(devices...)
	return r
}

func (r *rig) Latest() (inventory.Snapshot, <-chan struct{}) { return r.snapshots.Load() }

func (r *rig) Prepared(context.Context) ([]claims.Prepared, error) {
	all, _ := r.prepared.Load()
	return all, nil
}

func (r *rig) Changed() <-chan struct{} {
	_, stale := r.prepared.Load()
	return stale
}

func (r *rig) set(devices ...*inventory.Device) {
	r.snapshots.Store(inventory.Snapshot{Version: 1, Complete: true, Devices: devices})
}

// claim prepares a claim for devices.
func (r *rig) claim(name string, ids ...string) {
	r.t.Helper()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	must.Value(r.ResourceV1().ResourceClaims("default").Create(r.t.Context(), claim, metav1.CreateOptions{}))(r.t)
	r.prepared.Update(func(all []claims.Prepared) []claims.Prepared {
		return append(slices.Clone(all), claims.Prepared{UID: "uid-" + name, Namespace: "default", Name: name, Devices: ids})
	})
}

// run runs a writer until the test ends, or until stop is called.
func (r *rig) run() (stop func()) {
	core, logs := eventtest.Observed(r.t)
	r.logs = logs
	w := claimstatus.New(claimstatus.Config{Node: node, Client: r, Claims: r, Devices: r, Attributes: draslices.Options{}.Attributes, Log: zap.New(core)})
	return task.Run(r.t, w.Run)
}

// after waits for a time, and returns the requests since the last call: VERB NAME.
func (r *rig) after(d time.Duration) (requests []string) {
	time.Sleep(d)
	synctest.Wait()
	for _, a := range r.Actions() {
		switch a := a.(type) {
		case clienttesting.PatchAction:
			requests = append(requests, "patch "+a.GetName())
		case clienttesting.GetAction:
			requests = append(requests, "get "+a.GetName())
		}
	}
	r.ClearActions()
	return requests
}

// expect compares the requests within a time.
func (r *rig) expect(d time.Duration, want ...string) {
	r.t.Helper()
	compare.Values(r.t, "requests", want, r.after(d))
}

// status returns the status of a claim: DEVICE READY REASON MESSAGE, and the data of its first device.
func (r *rig) status(name string) (lines []string, data map[string]any) {
	r.t.Helper()
	claim := must.Value(r.ResourceV1().ResourceClaims("default").Get(r.t.Context(), name, metav1.GetOptions{}))(r.t)
	r.ClearActions()
	for i, d := range claim.Status.Devices {
		if len(d.Conditions) != 1 || d.Conditions[0].Type != "Ready" || d.Driver != draname.Driver || d.Pool != node {
			r.t.Fatalf("found %+v, want the condition Ready of a device of the node", d)
		}
		c := d.Conditions[0]
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", d.Device, c.Status, c.Reason, c.Message)))
		if i == 0 {
			must.Succeed(r.t, json.Unmarshal(d.Data.Raw, &data))
		}
	}
	return lines, data
}

func port(id string, health inventory.Health, reasons ...string) *inventory.Device {
	return &inventory.Device{ID: id, OfferedAs: draname.Driver, Health: health, Reasons: reasons, Family: "dfl",
		PCIAddress: "0000:" + id[:7], Facts: inventory.Facts{AFUID: afu, PCIID: "8086:09c4:8086:0000"}}
}

// The status of a claim shows its devices. Without a change there is no request.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", inventory.Healthy), port("3b:00.0-p1", inventory.Degraded, "throttled"), port("5e:00.0", inventory.Healthy))
		stop := r.run()
		r.expect(time.Second)
		r.claim("one", "3b:00.0-p1", "3b:00.0", "3b:00.0")
		r.expect(time.Second, "get one", "patch one")
		got, data := r.status("one")
		compare.Values(t, "status", []string{"pci-0000-3b-00-0 True Healthy", "pci-0000-3b-00-0-p1 True Degraded throttled"}, got)
		want := map[string]any{"id": "3b:00.0", "pciBusID": "0000:3b:00.0", "numaNode": 0., "family": "dfl", "afuId": afu, "portId": 0., "pciId": "8086:09c4:8086:0000"}
		compare.Values(t, "data", want, data)
		r.expect(24 * time.Hour)
		r.claim("two", "5e:00.0")
		r.expect(time.Second, "get two", "patch two")

		// The devices change several times within a second, and a device leaves.
		for i := range 20 {
			r.set(port("3b:00.0", inventory.Unhealthy, fmt.Sprint("port-ap6=", i), strings.Repeat("é", 200)), port("3b:00.0-p1", inventory.Healthy))
			time.Sleep(50 * time.Millisecond)
		}
		r.expect(10*time.Second, "patch one", "patch two")
		got, _ = r.status("one")
		compare.Values(t, "status", []string{"pci-0000-3b-00-0 False Unhealthy port-ap6=19, " + strings.Repeat("é", 93) + "…", "pci-0000-3b-00-0-p1 True Healthy"}, got)
		got, data = r.status("two")
		if diff := cmp.Diff([]string{"pci-0000-5e-00-0 False Unhealthy has left the node"}, got); diff != "" || len(data) != 1 {
			t.Errorf("status (-want +got):\n%s\ndata %v", diff, data)
		}
		stop()

		// Another driver finds the status.
		r.run()
		r.expect(time.Hour, "get one", "get two")
		r.prepared.Store(nil)
		r.expect(time.Hour)
	})
}

// A condition has the time of its last change between True and False.
func TestTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", inventory.Healthy))
		began := time.Now()
		stop := r.run()
		r.claim("one", "3b:00.0")
		at := func(want time.Time) {
			t.Helper()
			claim := must.Value(r.ResourceV1().ResourceClaims("default").Get(t.Context(), "one", metav1.GetOptions{}))(t)
			if got := claim.Status.Devices[0].Conditions[0].LastTransitionTime; !got.Time.Equal(want.Truncate(time.Second)) {
				t.Errorf("found %v, want %v", got, want)
			}
		}
		r.after(time.Minute)
		at(began)
		r.set(port("3b:00.0", inventory.Degraded, "throttled"))
		r.after(time.Minute)
		at(began)
		broke := time.Now()
		r.set(port("3b:00.0", inventory.Unhealthy, "port-ap6"))
		r.after(time.Minute)
		at(broke)
		stop()
		r.run()
		r.after(time.Minute)
		at(broke)
	})
}

// While the API server refuses a status, the driver asks rarely, and logs the refusal once.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", inventory.Healthy))
		r.fails = apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "one", errors.New("no"))
		r.run()
		for i := range 8 {
			r.claim(fmt.Sprint("claim-", i), "3b:00.0")
		}
		for i := range 600 { // the devices change all the time
			r.set(port("3b:00.0", inventory.Unhealthy, fmt.Sprint("x=", i)))
			time.Sleep(time.Minute)
		}
		if n := len(r.after(0)); n > 50 || n < 20 {
			t.Errorf("found %d requests in 10 h, want 20 to 50", n)
		}
		if lines := r.logs.TakeAll(); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()), "claim.status-failed") {
			t.Errorf("log: found %v, want claim.status-failed once", lines)
		}
		r.mu.Lock()
		r.fails, r.at = nil, nil
		r.mu.Unlock()
		compare.Equal(t, "requests after the failure", 16, len(r.after(time.Hour)))
		for i := range r.at[1:] {
			if gap := r.at[i+1].Sub(r.at[i]); i%2 == 1 && gap < 200*time.Millisecond {
				t.Errorf("found %s between two claims, want 200 ms or more", gap)
			}
		}
	})
}

// Claims whose status cannot be written, for example because of a webhook, do not delay other claims. They are tried
// again in turn, and are written soon after the cause is gone.
func TestSomeFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", inventory.Healthy))
		failing := map[string]bool{"one": true, "three": true}
		r.PrependReactor("patch", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return failing[action.(clienttesting.PatchAction).GetName()], nil, apierrors.NewBadRequest("no")
		})
		for _, name := range []string{"one", "two", "three"} {
			r.claim(name, "3b:00.0")
		}
		r.run()
		r.expect(3*time.Second, "get one", "patch one", "get two", "patch two", "get three", "patch three")
		tried := r.after(24 * time.Hour)
		slices.Sort(tried)
		one := slices.Index(tried, "get three")
		if three := len(tried)/2 - one; one < 24 || one > 50 || three < one-1 || three > one+1 {
			t.Errorf("found %q in a day, want one and three in turn, every 15 to 30 minutes", tried)
		}
		r.set(port("3b:00.0", inventory.Degraded, "throttled"))
		if got := r.after(10 * time.Second); !slices.Contains(got, "patch two") {
			t.Errorf("found the requests %q, want the claim that can be written within 10 s", got)
		}
		r.mu.Lock()
		delete(failing, "one")
		r.mu.Unlock()
		r.after(65 * time.Minute) // three may come first
		if got, _ := r.status("one"); len(got) != 1 || !strings.Contains(got[0], "throttled") {
			t.Errorf("found %q, want the device", got)
		}
		if got, _ := r.status("three"); len(got) > 0 {
			t.Errorf("found %q, want no status", got)
		}
	})
}

// A claim that is gone or was replaced does not delay others, and is not asked for again.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", inventory.Healthy))
		r.prepared.Store([]claims.Prepared{
			{UID: "uid-gone", Namespace: "default", Name: "gone", Devices: []string{"3b:00.0"}}, {UID: "uid-old", Namespace: "default", Name: "one", Devices: []string{"3b:00.0"}},
		})
		r.claim("one", "3b:00.0")
		r.run()
		r.expect(time.Hour, "get gone", "get one", "get one", "patch one")
		r.snapshots.Update(func(s inventory.Snapshot) inventory.Snapshot { s.Version++; return s })
		r.expect(time.Hour)
		compare.Empty(t, "log", r.logs.TakeAll())
	})
}

// A claim that is unprepared, deallocated and prepared again with the same devices between two passes is shown again.
// A claim that replaces it under the same name is left alone.
func TestPreparedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", inventory.Healthy))
		r.run()
		r.claim("one", "3b:00.0")
		r.expect(time.Second, "get one", "patch one")
		update := func(change func(*resourceapi.ResourceClaim)) {
			api := r.ResourceV1().ResourceClaims("default")
			claim := must.Value(api.Get(t.Context(), "one", metav1.GetOptions{}))(t)
			change(claim)
			must.Value(api.Update(t.Context(), claim, metav1.UpdateOptions{}))(t)
			r.ClearActions()
		}
		update(func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
		r.prepared.Update(func(all []claims.Prepared) []claims.Prepared {
			again := slices.Clone(all)
			again[0].Preparation++
			return again
		})
		r.expect(time.Minute, "get one", "patch one")

		update(func(c *resourceapi.ResourceClaim) { c.UID, c.Status.Devices = "uid-new", nil })
		r.set(port("3b:00.0", inventory.Unhealthy, "port-ap6"))
		r.after(time.Minute)
		if got, _ := r.status("one"); len(got) > 0 {
			t.Errorf("found %q in the status of another claim, want none", got)
		}
	})
}

// The API server's answer that the account may not write the devices is logged.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", inventory.Healthy))
		r.run()
		r.claim("one", "3b:00.0")
		r.expect(time.Second, "get one", "patch one")
		r.fails = invalid
		r.set(port("3b:00.0", inventory.Degraded, "throttled"))
		r.expect(time.Hour, "patch one")
		if lines := r.logs.TakeAll(); len(lines) != 1 || lines[0].ContextMap()["claim"] != "default/one" {
			t.Errorf("log: found %v, want one line with the claim", lines)
		}
	})
}

// The data of a device stays below the limit of the API server, whatever a card reports.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("\x01", 64)
		d := port("3b:00.0", inventory.Healthy)
		d.Family, d.AFUID, d.InterfaceID, d.PCIID, d.Attributes = long, long, long, long, map[string]string{"vbnv": long, "serialNumber": long, "other": long}
		r := newRig(t, d)
		r.run()
		r.claim("one", "3b:00.0")
		r.after(time.Second)
		claim := must.Value(r.ResourceV1().ResourceClaims("default").Get(t.Context(), "one", metav1.GetOptions{}))(t)
		if n := len(claim.Status.Devices[0].Data.Raw); n < 2000 || n > resourceapi.AllocatedDeviceStatusDataMaxLength/2 {
			t.Errorf("found %d bytes, want at most half of %d, and the attributes", n, resourceapi.AllocatedDeviceStatusDataMaxLength)
		}
	})
}
