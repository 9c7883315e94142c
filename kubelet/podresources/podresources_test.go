package podresources_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const resource = "b-com.com/accelerator"

// kubelet answers List with its pods. If pods is nil, it doesn't answer.
type kubelet struct {
	v1.UnimplementedPodResourcesListerServer
	pods []*v1.PodResources
}

func (k *kubelet) List(ctx context.Context, _ *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	if k.pods == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &v1.ListPodResourcesResponse{PodResources: k.pods}, nil
}

func socket(t *testing.T) string { return filepath.Join(cmdtest.ShortDir(t), "kubelet.sock") }

func serve(t *testing.T, path string, k *kubelet) {
	t.Helper()
	l := must.Value(net.Listen("unix", path))(t)
	s := grpc.NewServer()
	v1.RegisterPodResourcesListerServer(s, k)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
}

func devices(name string, ids ...string) *v1.ContainerDevices {
	return &v1.ContainerDevices{ResourceName: name, DeviceIds: ids}
}

func TestList(t *testing.T) {
	path := socket(t)
	serve(t, path, &kubelet{pods: []*v1.PodResources{
		{Namespace: "ns2", Name: "pod", Containers: []*v1.ContainerResources{
			{Name: "main", Devices: []*v1.ContainerDevices{devices(resource, "3b:00.0", "3c:00.0"), devices("other/thing", "3b:00.0")}},
			{Name: "idle"},
		}},
		{Namespace: "ns1", Name: "pod", Containers: []*v1.ContainerResources{
			{Name: "main", Devices: []*v1.ContainerDevices{devices(resource, "3b:00.0"), devices(resource, "3b:00.0")}},
		}},
		{Namespace: "ns1", Name: "empty"},
	}})
	got := must.Value(podresources.List(t.Context(), path))(t)
	want := map[podresources.Key][]podresources.Holder{
		{Resource: resource, ID: "3b:00.0"}:      {{Namespace: "ns1", Pod: "pod", Container: "main"}, {Namespace: "ns2", Pod: "pod", Container: "main"}},
		{Resource: resource, ID: "3c:00.0"}:      {{Namespace: "ns2", Pod: "pod", Container: "main"}},
		{Resource: "other/thing", ID: "3b:00.0"}: {{Namespace: "ns2", Pod: "pod", Container: "main"}},
	}
	compare.Values(t, "holders", want, got.Holders)
	compare.Values(t, "pods", []string{"ns2/pod", "ns1/pod", "ns1/empty"}, got.Pods)
	if info, err := os.Stat(path); err != nil || !got.Started.Equal(info.ModTime()) {
		t.Errorf("started %v, want the time of the socket (%v)", got.Started, err)
	}
	compare.Equal(t, "String", "ns2/pod/main", got.Holders[podresources.Key{Resource: resource, ID: "3c:00.0"}][0].String())
}

// For devices of claims, the resource is the driver's name.
func TestListClaims(t *testing.T) {
	const driver = "accelerator.b-com.com"
	device := func(driver, pool, name string) *v1.ClaimResource {
		return &v1.ClaimResource{DriverName: driver, PoolName: pool, DeviceName: name, CdiDevices: []*v1.CDIDevice{{Name: "vendor/claim=" + name}}}
	}
	claim := func(name string, devices ...*v1.ClaimResource) *v1.DynamicResource {
		return &v1.DynamicResource{ClaimNamespace: "ns", ClaimName: name, ClaimResources: devices}
	}
	shared := claim("shared", device(driver, "node", "pci-0000-3b-00-0"), device(driver, "node", "pci-0000-3b-00-0"), device("other", "node", "gpu-0"))
	path := socket(t)
	serve(t, path, &kubelet{pods: []*v1.PodResources{
		{Namespace: "ns", Name: "pod2", Containers: []*v1.ContainerResources{{Name: "main", DynamicResources: []*v1.DynamicResource{shared}}}},
		{Namespace: "ns", Name: "pod1", Containers: []*v1.ContainerResources{
			{Name: "main", DynamicResources: []*v1.DynamicResource{shared, claim("own", device(driver, "node", "pci-0000-3c-00-0-p1"))}},
			{Name: "plugin", Devices: []*v1.ContainerDevices{devices(resource, "3b:00.0")}, DynamicResources: []*v1.DynamicResource{claim("none"), {}}},
		}},
	}})
	got := must.Value(podresources.List(t.Context(), path))(t)
	of := func(pod, claim string) podresources.Holder {
		return podresources.Holder{Namespace: "ns", Pod: pod, Container: "main", Claim: claim}
	}
	both := []podresources.Holder{of("pod1", "shared"), of("pod2", "shared")}
	want := map[podresources.Key][]podresources.Holder{
		{Resource: driver, ID: "pci-0000-3b-00-0"}:    both,
		{Resource: driver, ID: "pci-0000-3c-00-0-p1"}: {of("pod1", "own")},
		{Resource: "other", ID: "gpu-0"}:              both,
		{Resource: resource, ID: "3b:00.0"}:           {{Namespace: "ns", Pod: "pod1", Container: "plugin"}},
	}
	compare.Values(t, "holders", want, got.Holders)
}

func TestListFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(*testing.T, string)
		want string
	}{
		{"no socket", func(*testing.T, string) {}, "no such file"},
		{"a file instead of a socket", func(t *testing.T, path string) {
			must.Succeed(t, os.WriteFile(path, nil, 0o600))
		}, "connection refused"},
		{"an answer that is too long", func(t *testing.T, path string) {
			serve(t, path, &kubelet{pods: []*v1.PodResources{{Namespace: "ns", Name: strings.Repeat("p", 4<<20)}}})
		}, "found an answer of more than 4 MiB: a pod has very many containers or devices"},
		{"no answer", func(t *testing.T, path string) { serve(t, path, &kubelet{}) }, "DeadlineExceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := socket(t)
			tc.make(t, path)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := podresources.List(ctx, path)
			compare.Equal(t, fmt.Sprintf("fs.ErrNotExist of %v", err), tc.name == "no socket", errors.Is(err, fs.ErrNotExist))
			if err == nil || !strings.HasPrefix(err.Error(), "pod-resources socket "+path+": ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with the path of the socket and %q", err, tc.want)
			}
		})
	}
}
