package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"b-com.com/accelerator-device-plugin/internal/control"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/event/eventtest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/owner"
)

// count returns the number of slices.
func (r *rig) count() int {
	r.Helper()
	all, err := r.client.ResourceV1().ResourceSlices().List(r.Context(), metav1.ListOptions{})
	must(r.T, err)
	return len(all.Items)
}

// locked reports whether DRA's lock file exists, which makes a device plugin wait.
func (r *rig) locked() bool {
	_, err := os.Lstat(filepath.Join(r.cfg.StateDir, "owner-dra.lock"))
	return err == nil
}

// While a device plugin owns the node, the driver does not register and publishes nothing. The last driver that
// stops deletes the slices. A driver that stops beside another one does not.
func TestOneOwner(t *testing.T) {
	r := newRig(t)
	plug(t, r.node, "pac-a10")
	plugin := owner.New(r.cfg.StateDir, control.DevicePlugin, zap.NewNop())
	must(t, plugin.Take(t.Context()))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	core, logs := eventtest.Observed(t)
	go func() {
		ended <- newDaemon(r.cfg, r.settings, r.client, zap.New(core), metrics.New("test")).Serve(ctx)
	}()
	r.eventually("line that the driver waits", func() bool { return logs.FilterField(event.OwnerWaiting).Len() > 0 })
	if sockets, _ := filepath.Glob(r.settings.registryDir + "/*"); len(sockets) > 0 || r.count() > 0 {
		t.Errorf("found sockets %v and %d slices while a device plugin owns the node, want none", sockets, r.count())
	}
	cancel()
	must(t, <-ended)

	plugin.Leave(t.Context(), func(context.Context) error { return nil })
	stop := r.run()
	r.published("the plugin has left", device)
	stop()
	if n := r.count(); n > 0 || r.locked() {
		t.Errorf("after the last driver: found %d slices, lock file %t, want none", n, r.locked())
	}

	stop = r.run()
	r.published("started again", device)
	second := owner.New(r.cfg.StateDir, control.DRA, zap.NewNop())
	must(t, second.Take(t.Context()))
	stop()
	if n := r.count(); n != 1 || !r.locked() {
		t.Errorf("beside another driver: found %d slices, lock file %t, want one and true", n, r.locked())
	}
	second.Leave(t.Context(), nil) // as if killed
	if !r.locked() {
		t.Error("after a kill: found no lock file, want one")
	}

	stop = r.run()
	r.published("started after a kill", device)
	r.client.PrependReactor("delete", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no answer")
	})
	began := time.Now()
	stop()
	if took := time.Since(began); r.count() != 1 || !r.locked() || took > 9*time.Second {
		t.Errorf("without the API server: found %d slices, lock file %t after %s, want one, true, in less than 9s", r.count(), r.locked(), took)
	}
}
