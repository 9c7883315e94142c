package driver_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// A driver that finishes claims registers only while there is no slice, writes none, refuses Prepare and serves Unprepare.
func TestFinish(t *testing.T) {
	left := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "00000-x-1"},
		Spec:       resourceapi.ResourceSliceSpec{Driver: draname.Driver, NodeName: new(node), Pool: resourceapi.ResourcePool{Name: node}},
	}
	client := newClient("new")
	slices := client.ResourceV1().ResourceSlices()
	must.Value(slices.Create(t.Context(), left.DeepCopy(), metav1.CreateOptions{}))(t)
	all := must.Value(slices.List(t.Context(), metav1.ListOptions{}))(t)
	left = &all.Items[0]
	unprepared := make(chan string, 1)
	r := rigOf(t, client, "d0ff1d24-63f8-4e4e-8e0b-3a5f1a2b3c4d", true, claims{unprepare: func(_ context.Context, claim kubeletplugin.NamespacedObject) error {
		unprepared <- claim.Name
		return nil
	}}, well("3b:00.0"))
	sockets := func() int {
		found, _ := filepath.Glob(r.dir + "/registry/*.sock")
		return len(found)
	}
	compare.Error(t, "Ready before the start", "", r.Ready())
	r.start()
	// The driver that has published the slice ends when this one is ready.
	patient.Until(r, "readiness beside a slice", func() bool { return r.Ready() == nil })
	if n := sockets(); n != 0 || r.Registered() {
		t.Errorf("beside a slice: found %d sockets of the registry, want none", n)
	}
	for range 2 {
		must.Succeed(t, slices.Delete(t.Context(), left.Name, metav1.DeleteOptions{}))
		patient.Until(r, "socket without a slice", func() bool { return sockets() > 0 })
		compare.Error(t, "Ready before the registration", "", r.Ready())
		kubelet := drapb.NewDRAPluginClient(r.register(true))
		patient.Until(r, "readiness", func() bool { return r.Ready() == nil && r.Registered() })
		prepared := must.Value(kubelet.NodePrepareResources(t.Context(), &drapb.NodePrepareResourcesRequest{Claims: request("new")}))(t)
		const want = "claim default/new: this node no longer allocates devices to claims"
		if found := prepared.Claims["new"].GetError(); !strings.HasPrefix(found, want) || strings.Contains(found, "\n") {
			t.Errorf("Prepare: error %q, want one line that begins with %q", found, want)
		}
		ended, err := kubelet.NodeUnprepareResources(t.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: request("old")})
		if err != nil || ended.Claims["old"].GetError() != "" || <-unprepared != "old" {
			t.Fatalf("Unprepare: found %v, error %v", ended, err)
		}
		compare.Equal(t, "slices", 0, count(t, client))
		// Another driver publishes.
		must.Succeed(t, client.Tracker().Add(left))
		patient.Until(r, "end of the registration", func() bool { return sockets() == 0 && !r.Registered() })
		patient.Until(r, "readiness beside a slice", func() bool { return r.Ready() == nil })
	}
	compare.Equal(t, "lines about refused claims", 2, r.count(logevent.ClaimRefused))
	r.end()
}
