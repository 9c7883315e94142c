package driver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"b-com.com/accelerator-device-plugin/dra/test/cluster"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// newClient returns an API server with the node and claims with these names, whose uids are the same.
func newClient(claimed ...string) *fake.Clientset {
	objects := []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "node"}}}
	for _, name := range claimed {
		objects = append(objects, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
			Status:     resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}},
		})
	}
	return cluster.Client(objects...)
}

// count returns the number of slices.
func count(t *testing.T, client kubernetes.Interface) int {
	t.Helper()
	return len(must.Value(client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{}))(t).Items)
}

// names of claims → of gRPC.
func request(names ...string) []*drapb.Claim {
	var all []*drapb.Claim
	for _, name := range names {
		all = append(all, &drapb.Claim{Namespace: "default", Name: name, Uid: name})
	}
	return all
}

// A kubelet registers the driver, prepares claims and follows the health of devices.
func TestKubelet(t *testing.T) {
	for _, uid := range []string{"", "d0ff1d24-63f8-4e4e-8e0b-3a5f1a2b3c4d"} {
		t.Run("uid "+uid, func(t *testing.T) {
			waits := make(chan struct{})
			r := newRig(t, newClient("fast", "slow", "bad"), uid, claims{
				prepare: func(ctx context.Context, claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
					switch claim.Name {
					case "slow":
						select {
						case <-waits:
						case <-ctx.Done():
						}
					case "bad":
						return kubeletplugin.PrepareResult{Err: errors.New("device has left")}
					}
					return kubeletplugin.PrepareResult{Devices: []kubeletplugin.Device{{PoolName: node, DeviceName: "of-" + claim.Name, CDIDeviceIDs: []string{"a/b=c"}}}}
				},
				unprepare: func(_ context.Context, claim kubeletplugin.NamespacedObject) error {
					if claim.Name == "bad" {
						return errors.New("disk full")
					}
					return nil
				},
			}, well("3b:00.0"), broken("4b:00.0"))
			r.start()
			kubelet := r.register(true)
			patient.Until(r, "readiness", func() bool { return r.Ready() == nil })
			if !r.Registered() || r.count(logevent.DriverRegistered) != 1 {
				t.Errorf("found registered %t and %d lines about that, want true and 1", r.Registered(), r.count(logevent.DriverRegistered))
			}

			// A claim that waits delays neither the other calls nor the other claims of its call.
			dra := drapb.NewDRAPluginClient(kubelet)
			late := make(chan *drapb.NodePrepareResourcesResponse, 1)
			go func() {
				answer, err := dra.NodePrepareResources(t.Context(), &drapb.NodePrepareResourcesRequest{Claims: request("slow", "fast")})
				if err != nil {
					t.Error(err)
				}
				late <- answer
			}()
			answer := must.Value(dra.NodePrepareResources(t.Context(), &drapb.NodePrepareResourcesRequest{Claims: request("fast", "bad")}))(t)
			if d := answer.Claims["fast"].Devices; len(d) != 1 || d[0].DeviceName != "of-fast" || answer.Claims["bad"].Error != "device has left" {
				t.Errorf("found %v", answer)
			}
			select {
			case <-late:
				t.Error("found an answer although a claim waits")
			default:
			}
			close(waits)
			if answer := <-late; len(answer.Claims) != 2 || answer.Claims["slow"].Devices[0].DeviceName != "of-slow" {
				t.Errorf("found %v", answer)
			}
			gone, err := dra.NodeUnprepareResources(t.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: request("fast", "bad")})
			if err != nil || gone.Claims["fast"].Error != "" || gone.Claims["bad"].Error != "disk full" {
				t.Errorf("found %v, error %v", gone, err)
			}

			stream := must.Value(drahealth.NewDRAResourceHealthClient(kubelet).NodeWatchResources(t.Context(), &drahealth.NodeWatchResourcesRequest{}))(t)
			want := func(text string) {
				t.Helper()
				report := must.Value(stream.Recv())(t)
				var got []string
				for _, d := range report.Devices {
					got = append(got, fmt.Sprint(d.Device.PoolName, " ", d.Device.DeviceName, " ", d.Health, " ", d.Message))
				}
				compare.Values(t, "health", text, strings.Join(got, "\n"))
			}
			want("worker-3 pci-0000-3b-00-0 HEALTHY \nworker-3 pci-0000-4b-00-0 UNHEALTHY afu-dead")
			r.devices.set(broken("3b:00.0"))
			want("worker-3 pci-0000-3b-00-0 UNHEALTHY afu-dead")
			compare.Equal(t, "streams", 1, r.Streams())
			r.end()
			compare.Empty(t, "sockets after the end", must.Value(filepath.Glob(r.dir+"/*/*.sock"))(t))
		})
	}
}

// A driver that the kubelet has refused is not ready, and publishes nothing: if it were killed, the kubelet would not
// delete its slices.
func TestPublishesOnceRegistered(t *testing.T) {
	client := newClient()
	r := newRig(t, client, "", claims{}, well("3b:00.0"))
	r.start()
	r.register(false)
	patient.Until(r, "watch of the driver and of the helper", func() bool {
		n := 0
		for _, a := range client.Actions() {
			if a.Matches("watch", "resourceslices") {
				n++
			}
		}
		return n == 2
	})
	r.AwaitHanding() // takes a second
	if n := count(t, client); n > 0 || !r.UpToDate() || r.count(logevent.SlicesPublished) > 0 {
		t.Errorf("before the registration: found %d slices, want none", n)
	}
	if r.Registered() || r.Ready() == nil || r.count(logevent.DriverRegistered) > 0 {
		t.Errorf("found registered %t, Ready %v, and %d lines about a registration", r.Registered(), r.Ready(), r.count(logevent.DriverRegistered))
	}
	r.register(true)
	patient.Until(r, "slice", func() bool { return count(t, client) == 1 })
	patient.Until(r, "readiness", func() bool { return r.Ready() == nil })
	r.register(false) // by the next kubelet
	compare.Error(t, "Ready", "not registered", r.Ready())
	r.end()
}

// Run waits for the calls under way, whose contexts end.
func TestStopsDuringCall(t *testing.T) {
	begun, slow := make(chan struct{}), make(chan struct{})
	r := newRig(t, newClient("a"), "", claims{prepare: func(ctx context.Context, _ *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
		close(begun)
		<-ctx.Done()
		<-slow
		return kubeletplugin.PrepareResult{Err: context.Cause(ctx)}
	}})
	r.start()
	dra := drapb.NewDRAPluginClient(r.register(true))
	failed := make(chan error, 1)
	go func() {
		_, err := dra.NodePrepareResources(t.Context(), &drapb.NodePrepareResourcesRequest{Claims: request("a")}, grpc.WaitForReady(true))
		failed <- err
	}()
	<-begun
	r.stop()
	patient.Until(r, "Run that waits for the call", r.Stopping)
	close(slow)
	r.end()
	compare.Error(t, "the call", "", <-failed)
	compare.Error(t, "Prepare after the end", "", compare.ErrorOf(r.PrepareResourceClaims(t.Context(), nil)))
	compare.Error(t, "Unprepare after the end", "", compare.ErrorOf(r.UnprepareResourceClaims(t.Context(), nil)))
	compare.Error(t, "stream after the end", "", r.WatchHealthStatus(t.Context(), nil))
}

// A driver whose sockets cannot be made ends with an error.
func TestNoDirectory(t *testing.T) {
	for _, file := range []string{"plugin", "registry"} {
		r := newRig(t, newClient(), "", claims{})
		path := filepath.Join(r.dir, file)
		must.Succeed(t, errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o600)))
		compare.Error(t, fmt.Sprintf("a file instead of the directory %s", file), "", r.Driver.Run(t.Context()))
	}
}

func TestHandleError(t *testing.T) {
	recoverable := func(err error) error { return errors.Join(err, kubeletplugin.ErrRecoverable) }
	device := func(taints ...resourceapi.DeviceTaint) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{{Name: "a", Taints: taints}}}}
	}
	taint := resourceapi.DeviceTaint{Key: draname.Taint}
	dropped := &resourceslice.DroppedFieldsError{DesiredSlice: device(taint), ActualSlice: device()}
	other := device()
	other.Spec.Devices[0].BindingConditions = []string{"a"}

	r := newRig(t, newClient(), "", claims{}, well("3b:00.0"), broken("4b:00.0"))
	r.start()
	lines := func(what string, failed, untainted int) {
		t.Helper()
		if f, u := r.count(logevent.SlicesFailed), r.count(logevent.TaintsUnsupported); f != failed || u != untainted {
			t.Errorf("%s: found %d lines about failures and %d about taints, want %d and %d", what, f, u, failed, untainted)
		}
	}
	published := func(tainted, count int64) bool {
		all := r.logs.FilterField(logevent.SlicesPublished).All()
		return len(all) > 0 && all[len(all)-1].ContextMap()["tainted"] == tainted && all[len(all)-1].ContextMap()["count"] == count
	}
	r.register(true)
	patient.Until(r, "publication", func() bool { return published(1, 2) })
	r.HandleError(t.Context(), recoverable(errors.New("forbidden")), "processing ResourceSlice objects")
	lines("refused", 1, 0)
	r.HandleError(t.Context(), recoverable(&resourceslice.DroppedFieldsError{DesiredSlice: other, ActualSlice: device()}), "update ResourceSlice")
	lines("another field dropped", 2, 0)
	r.HandleError(t.Context(), recoverable(fmt.Errorf("update: %w", context.Canceled)), "processing ResourceSlice objects")
	r.HandleError(t.Context(), recoverable(errors.New("late")), "device health reports are stale")
	lines("none of slices", 2, 0)
	for range 3 {
		r.HandleError(t.Context(), recoverable(fmt.Errorf("update: %w", dropped)), "update ResourceSlice")
	}
	lines("taints dropped", 2, 1)
	patient.Until(r, "publication without the broken device", func() bool { return published(0, 1) })

	r.HandleError(t.Context(), errors.New("listener is broken"), "DRA gRPC server failed")
	r.HandleError(t.Context(), errors.New("and another"), "registrar gRPC server failed")
	if err := <-r.ended; err == nil || err.Error() != "DRA gRPC server failed: listener is broken" {
		t.Errorf("Run: error %v, want that of the server", err)
	}
}

// Sockets of killed drivers are removed. Sockets of others, and other files, stay.
func TestLeftovers(t *testing.T) {
	r := newRig(t, newClient(), "new", claims{})
	must.Succeed(t, os.Mkdir(r.dir+"/plugin", 0o750))
	listen := func(name string, killed bool) (l *net.UnixListener) {
		t.Helper()
		l = must.Value(net.ListenUnix("unix", &net.UnixAddr{Name: r.dir + "/" + name, Net: "unix"}))(t)
		l.SetUnlinkOnClose(!killed)
		if killed {
			l.Close()
		} else {
			t.Cleanup(func() { l.Close() })
		}
		return l
	}
	for _, name := range []string{
		"registry/accelerator.b-com.com-old-reg.sock", "registry/accelerator.b-com.com-reg.sock", "registry/accelerator.b-com.com-new-reg.sock",
		"registry/accelerator.b-com.community-reg.sock", "registry/other.example.com-reg.sock", "registry/accelerator.b-com.com-old.sock",
		"plugin/dra-old.sock", "plugin/dra.sock", "plugin/other.sock",
	} {
		listen(name, true)
	}
	listen("registry/accelerator.b-com.com-lives-reg.sock", false)
	lives := listen("plugin/dra-lives.sock", false)
	for _, name := range []string{"registry/accelerator.b-com.com-file-reg.sock", "plugin/dra-file.sock"} {
		must.Succeed(t, os.WriteFile(filepath.Join(r.dir, name), nil, 0o600))
	}
	r.start()
	patient.Until(r, "driver", func() bool {
		conn, err := net.Dial("unix", r.dir+"/registry/accelerator.b-com.com-new-reg.sock")
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	var got []string
	for _, dir := range []string{"plugin", "registry"} {
		entries := must.Value(os.ReadDir(r.dir + "/" + dir))(t)
		for _, e := range entries {
			got = append(got, dir+"/"+e.Name())
		}
	}
	want := []string{
		"plugin/dra-file.sock", "plugin/dra-lives.sock", "plugin/dra-new.sock", "plugin/other.sock",
		"registry/accelerator.b-com.com-file-reg.sock", "registry/accelerator.b-com.com-lives-reg.sock", "registry/accelerator.b-com.com-new-reg.sock",
		"registry/accelerator.b-com.com-old.sock", "registry/accelerator.b-com.community-reg.sock", "registry/other.example.com-reg.sock",
	}
	compare.Values(t, "files", want, got)

	// Another driver is killed while this one is running. A socket that refuses connections for the first time may belong
	// to a driver that is just starting.
	path := r.dir + "/plugin/dra-lives.sock"
	exists := func() bool { _, err := os.Lstat(path); return err == nil }
	refused := r.RemoveStale(t.Context(), map[string]bool{})
	lives.SetUnlinkOnClose(false)
	lives.Close()
	refused = r.RemoveStale(t.Context(), refused)
	compare.Equal(t, "refused once: exists", true, exists())
	r.RemoveStale(t.Context(), refused)
	compare.Equal(t, "refused twice: exists", false, exists())
	compare.Equal(t, "lines about sockets", 6, r.count(logevent.SocketRemoved))
	r.end()
}

// If the first publication is faster than fillCache, fillCache must not hand over anything: without pools, the
// helper would delete the slices. The helper is nil here, so a call would panic.
func TestFillCacheAfterPublication(t *testing.T) {
	r := newRig(t, nil, "", claims{})
	r.Want(resourceslice.Slice{})
	compare.NoError(t, "FillCache", r.FillCache(t.Context()))
}

// On an API server that drops taints, an unhealthy device is never in a slice.
func TestTaintsDropped(t *testing.T) {
	client := newClient()
	client.PrependReactor("*", "resourceslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a, ok := a.(interface{ GetObject() runtime.Object }); ok {
			for i := range a.GetObject().(*resourceapi.ResourceSlice).Spec.Devices {
				a.GetObject().(*resourceapi.ResourceSlice).Spec.Devices[i].Taints = nil
			}
		}
		return false, nil, nil
	})
	r := newRig(t, client, "", claims{}, well("3b:00.0"), broken("4b:00.0"))
	r.start()
	r.register(true)
	patient.Until(r, "slice", func() bool { return count(t, client) == 1 })
	for _, a := range client.Actions() {
		create, ok := a.(clienttesting.CreateActionImpl)
		if ok && len(create.CreateOptions.DryRun) == 0 && len(create.Object.(*resourceapi.ResourceSlice).Spec.Devices) != 1 {
			t.Errorf("found %v, want the healthy device only", create.Object)
		}
	}
	compare.Equal(t, "lines about taints", 1, r.count(logevent.TaintsUnsupported))
}
