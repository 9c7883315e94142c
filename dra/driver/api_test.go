package driver_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
)

// apiServer is a real API server without a kubelet or controllers.
type apiServer struct {
	t      *testing.T
	admin  kubernetes.Interface
	client kubernetes.Interface // of the driver
}

// newAPIServer skips the test if ACCELERATOR_E2E_BIN, a directory with etcd and kube-apiserver, is not set.
func newAPIServer(t *testing.T, gates string) *apiServer {
	t.Helper()
	bin := os.Getenv("ACCELERATOR_E2E_BIN")
	if bin == "" {
		t.Skip("NOT RUN: ACCELERATOR_E2E_BIN: found none, want a directory with etcd and kube-apiserver; make e2e builds them")
	}
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{BinaryAssetsDirectory: bin}
	if gates != "" {
		env.ControlPlane.GetAPIServer().Configure().Append("feature-gates", gates)
	}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &apiServer{t: t}
	if s.admin, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	ofDriver := rest.CopyConfig(config)
	ofDriver.QPS, ofDriver.Burst = 20, 40 // as in the command
	if s.client, err = kubernetes.NewForConfig(ofDriver); err != nil {
		t.Fatal(err)
	}
	if _, err := s.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// follow returns a channel with the devices in the slices after each change, as "NAME NAME! |", with an
// exclamation mark if a device has a taint and "|" after each slice.
func (s *apiServer) follow(ctx context.Context) <-chan string {
	s.t.Helper()
	w, err := s.admin.ResourceV1().ResourceSlices().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	states := make(chan string, 1000)
	go func() {
		defer close(states)
		stored := map[string]*resourceapi.ResourceSlice{}
		for e := range w.ResultChan() {
			slice, ok := e.Object.(*resourceapi.ResourceSlice)
			if !ok {
				continue // an error: the server stops
			}
			stored[slice.Name] = slice
			if e.Type == "DELETED" {
				delete(stored, slice.Name)
			}
			var text []string
			for _, slice := range stored {
				line := ""
				for _, d := range slice.Spec.Devices {
					line += strings.TrimPrefix(d.Name, "pci-0000-") + map[bool]string{true: "! ", false: " "}[len(d.Taints) > 0]
				}
				text = append(text, line+"|")
			}
			slices.Sort(text)
			states <- strings.Join(text, " ")
		}
	}()
	s.t.Cleanup(w.Stop)
	return states
}

// await waits until the slices are as wanted, and logs how long that took. The limit is below the 30 s after which the
// helper alone would act.
func (s *apiServer) await(states <-chan string, what, want string) {
	s.t.Helper()
	start, state := time.Now(), ""
	deadline := time.After(20 * time.Second)
	for {
		select {
		case state = <-states:
		case <-deadline:
			s.t.Fatalf("%s: found %q after 20 s, want %q", what, state, want)
		}
		if state == want {
			s.t.Logf("%s: after %v", what, time.Since(start).Round(100*time.Microsecond))
			return
		}
	}
}

// deleteAll deletes the slices as a kubelet does when it starts.
func (s *apiServer) deleteAll() {
	s.t.Helper()
	err := s.admin.ResourceV1().ResourceSlices().DeleteCollection(s.t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + node})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestAPIServer(t *testing.T) {
	s := newAPIServer(t, "")
	states := s.follow(t.Context())
	const a, b = "3b:00.0", "4b:00.0"
	r := newRig(t, s.client, "d0ff1d24-63f8-4e4e-8e0b-3a5f1a2b3c4d", claims{}, well(a), well(b))
	r.start()
	if err := r.Ready(); err == nil {
		t.Error("Ready at the start: found no error, want one")
	}
	r.register(true)
	s.await(states, "first publication", "3b-00-0 4b-00-0 |")
	r.eventually("readiness", func() bool { return r.Ready() == nil })

	r.devices.set(broken(a), well(b))
	s.await(states, "taint", "3b-00-0! 4b-00-0 |")
	r.devices.set(well(b))
	s.await(states, "removal", "4b-00-0 |")
	r.devices.set(well(a), well(b))
	s.await(states, "addition", "3b-00-0 4b-00-0 |")
	r.devices.set(broken(a), well(b))
	s.await(states, "taint", "3b-00-0! 4b-00-0 |")
	r.eventually("readiness", func() bool { return r.Ready() == nil })

	// Slices that another client deletes, and several at once.
	before := r.count(logevent.SlicesDeleted)
	for range 3 {
		s.deleteAll()
		s.await(states, "deleted", "")
		s.await(states, "back", "3b-00-0! 4b-00-0 |")
		r.eventually("readiness", func() bool { return r.Ready() == nil })
	}
	if n := r.count(logevent.SlicesDeleted) - before; n != 3 {
		t.Errorf("found %d lines about 3 deletions", n)
	}
	var many []*inventory.Device
	for i := range 130 {
		many = append(many, well(fmt.Sprintf("%02x:00.0", i)))
	}
	r.devices.set(many...)
	r.eventually("readiness", func() bool { return r.Ready() == nil })
	for len(states) > 0 {
		<-states
	}
	logged := r.count(logevent.SlicesDeleted)
	s.deleteAll()
	r.eventually("deletion", func() bool { return r.count(logevent.SlicesDeleted) > logged })
	r.eventually("readiness", func() bool { return r.Ready() == nil })
	all, err := s.admin.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 3 {
		t.Errorf("found %d slices, error %v; want 3", len(all.Items), err)
	}
	r.end()
	if all, err := s.admin.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) != 3 {
		t.Errorf("found %d slices after the end, error %v; want 3, for the next driver", len(all.Items), err)
	}
}

// An API server that drops taints, as before Kubernetes 1.36.
func TestAPIServerWithoutTaints(t *testing.T) {
	s := newAPIServer(t, "DRADeviceTaints=false,DRADeviceTaintRules=false")
	states := s.follow(t.Context())
	r := newRig(t, s.client, "", claims{}, broken("3b:00.0"), well("4b:00.0"))
	r.start()
	r.register(true)
	s.await(states, "broken device left out", "4b-00-0 |")
	r.devices.set(well("3b:00.0"), well("4b:00.0"))
	s.await(states, "device is well again", "3b-00-0 4b-00-0 |")
	r.devices.set(well("3b:00.0"), broken("4b:00.0"))
	s.await(states, "another one is broken", "3b-00-0 |")
	r.eventually("readiness", func() bool { return r.Ready() == nil })
	if n := r.count(logevent.TaintsUnsupported); n != 1 {
		t.Errorf("found %d lines about taints, want 1", n)
	}
}
