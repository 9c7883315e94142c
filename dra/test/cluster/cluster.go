// Package cluster plays a driver's API server and kubelet in tests.
package cluster

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// Client returns an API server that contains these objects. Unlike the library's, it generates names for
// ResourceSlices, and doesn't store anything in a dry run.
func Client(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	var created atomic.Int64
	client.PrependReactor("create", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		slice := create.Object.(*resourceapi.ResourceSlice)
		if len(create.CreateOptions.DryRun) > 0 {
			return true, slice, nil
		}
		slice.ResourceVersion = fmt.Sprint(created.Add(1))
		slice.Name = slice.GenerateName + slice.ResourceVersion
		return false, nil, nil
	})
	return client
}

// Register finds a driver's socket in the registry, tells the driver whether it is registered, and returns a connection
// to its services.
func Register(t testing.TB, registry string, registered bool) *grpc.ClientConn {
	t.Helper()
	var sockets []string
	patient.Until(t, "socket in the registry", func() bool {
		sockets, _ = filepath.Glob(registry + "/*.sock")
		return len(sockets) > 0
	})
	client := registerapi.NewRegistrationClient(dial(t, sockets[0]))
	info := must.Value(client.GetInfo(t.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(true)))(t)
	compare.Equal(t, "name and type", draname.Driver+" "+registerapi.DRAPlugin, info.Name+" "+info.Type)
	_, err := client.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{PluginRegistered: registered})
	compare.Equal(t, "status is accepted", registered, err == nil)
	return dial(t, info.Endpoint)
}

func dial(t testing.TB, socket string) *grpc.ClientConn {
	t.Helper()
	conn := must.Value(grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}
