package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// count returns the number of slices.
func (r *rig) count() int {
	r.Helper()
	all := must.Value(r.client.ResourceV1().ResourceSlices().List(r.Context(), metav1.ListOptions{}))(r.T)
	return len(all.Items)
}

// locked reports whether DRA's lock file exists, which makes a device plugin wait.
func (r *rig) locked() bool {
	_, err := os.Lstat(filepath.Join(r.cfg.StateDir, "owner-dra.lock"))
	return err == nil
}

// While a device plugin owns the node, the driver does not register and publishes nothing. The last driver that stops
// deletes the slices. A driver that stops while another one is running leaves them.
func TestOneOwner(t *testing.T) {
	r := newRig(t)
	plug(t, r.node, "pac-a10")
	plugin := owner.New(r.cfg.StateDir, control.DevicePlugin, zap.NewNop())
	must.Succeed(t, plugin.Take(t.Context(), func() owner.Naming { return 1 }))

	stop, logs := r.start()
	patient.Until(r, "line that the driver waits", func() bool { return logs.FilterField(logevent.OwnerWaiting).Len() > 0 })
	if sockets, _ := filepath.Glob(r.settings.registryDir + "/*"); len(sockets) > 0 || r.count() > 0 {
		t.Errorf("found sockets %v and %d slices while a device plugin owns the node, want none", sockets, r.count())
	}
	stop()

	plugin.Leave(t.Context(), func(context.Context) error { return nil })
	stop = r.run()
	r.published("the plugin has left", device)
	stop()
	if n := r.count(); n > 0 || r.locked() {
		t.Errorf("after the last driver: found %d slices, lock file %t, want none", n, r.locked())
	}

	stop = r.run()
	r.published("started again", device)
	second := owner.New(r.cfg.StateDir, control.DRA, zap.NewNop())
	must.Succeed(t, second.Take(t.Context(), func() owner.Naming { return daemon.Naming(r.cfg, control.DRA) }))
	stop()
	if n := r.count(); n != 1 || !r.locked() {
		t.Errorf("beside another driver: found %d slices, lock file %t, want one and true", n, r.locked())
	}
	second.Leave(t.Context(), nil) // as if killed
	if !r.locked() {
		t.Error("after a kill: found no lock file, want one")
	}

	var broken atomic.Bool // reactors must be added before the driver starts
	r.client.PrependReactor("delete", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return broken.Load(), nil, errors.New("no answer")
	})
	stop = r.run()
	r.published("started after a kill", device)
	broken.Store(true)
	stop()
	if r.count() != 1 || !r.locked() {
		t.Errorf("without the API server: found %d slices, lock file %t, want one, true", r.count(), r.locked())
	}
}

// In an upgrade that changes the mode, the two drivers never take turns in writing the slices. The new one waits until
// the old one has deleted its slices, and then publishes its own soon after. A device of a prepared claim stays with
// its pod.
func TestUpgradeWithAnotherMode(t *testing.T) {
	old := newRig(t)
	plug(t, old.node, "pac-a10")
	old.settings.podUID = "old"
	stop := old.run()
	old.published("the old driver", device)
	before := old.writes()
	next := *old
	next.cfg.Mode, next.settings.podUID = offer.Region, "next"
	next.cfg.Socket += "2"
	_, logs := next.start()
	patient.Until(next, "line that the driver waits", func() bool {
		return logs.FilterField(logevent.OwnerWaiting).FilterField(logevent.Reason("naming")).Len() > 0
	})
	claim := old.claim("job")
	old.given(claim)
	compare.Equal(t, "both run: writes of slices", 0, old.writes()-before)
	stop()
	next.register()
	next.published("the old driver has ended", device)
	next.unprepare(claim)
}

// writes returns the number of requests that have changed slices.
func (r *rig) writes() (n int) {
	for _, a := range r.client.Actions() {
		if a.GetResource().Resource == "resourceslices" && slices.Contains([]string{"create", "update", "delete"}, a.GetVerb()) {
			n++
		}
	}
	return n
}
