package kubelet_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // converts Events
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// admission checks Events that a stand-in receives the way the API server does: with its types, conversion and
// validation.
type admission struct {
	t    *testing.T
	mu   sync.Mutex
	made map[string]*v1.Event // created Events, by name
}

func (a *admission) look(_ http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = a.take(r.Method, path.Base(r.URL.Path), body)
	}
	if err != nil {
		a.t.Errorf("%s %s: %v\n%s", r.Method, r.URL.Path, err, body)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return false
}

func (a *admission) take(method, name string, body []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var sent v1.Event
	if method == http.MethodPatch { // decoding over the old Event is a merge patch, because the patch doesn't have any nested objects
		sent = *a.made[name]
	}
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&sent); err != nil {
		return err
	}
	var now, before core.Event
	if err := legacyscheme.Scheme.Convert(&sent, &now, nil); err != nil {
		return err
	}
	errs := validation.ValidateEventCreate(&now, v1.SchemeGroupVersion)
	if method == http.MethodPatch {
		if err := legacyscheme.Scheme.Convert(a.made[name], &before, nil); err != nil {
			return err
		}
		errs = validation.ValidateEventUpdate(&now, &before, v1.SchemeGroupVersion)
	}
	if n := len(sent.Message); n > validation.NoteLengthLimit {
		return fmt.Errorf("message: found %d bytes, want at most %d", n, validation.NoteLengthLimit)
	}
	a.made[sent.Name] = &sent
	return errs.ToAggregate()
}

// described returns the Events that kubectl describe would find for an object by kind, name, namespace and UID
// (searchEvents in k8s.io/kubectl/pkg/describe).
func (a *admission) described(kind, namespace, name, uid string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []string
	for _, e := range a.made {
		o := e.InvolvedObject
		if o.Kind == kind && o.Namespace == namespace && o.Name == name && string(o.UID) == uid {
			device, _, _ := strings.Cut(strings.TrimPrefix(e.Message, "FPGA device "), " ")
			found = append(found, fmt.Sprintf("%s %s %s x%d", e.Type, e.Reason, device, e.Count))
		}
	}
	slices.Sort(found)
	return found
}

// When a held device changes, the daemon creates Events for the node and the pod. They pass the API server's own
// validation.
func TestEvents(t *testing.T) {
	t.Parallel()
	const node = "node-1"
	api := &admission{t: t, made: map[string]*v1.Event{}}
	server := simapiserver.Start(nil)
	t.Cleanup(server.Close)
	server.UseFault(api.look)
	r := newRig(t, []simnode.Card{cardA})
	r.advertises("without events", r.only(2, 2))
	r.end(r.daemon)
	r.daemon = r.startDaemon("--events", "--node-annotation=false", "--node-name", node, "--kubeconfig", r.kubeconfig(server))
	r.advertises("started", r.only(2, 2))
	pod := r.admit("job", r.resource, 1)
	r.holds(pod, "3b:00.0")
	server.SetPod(pod.Namespace, pod.Name, string(pod.UID))

	var onNode, onPod []string
	await := func(when string) {
		t.Helper()
		slices.Sort(onNode)
		slices.Sort(onPod)
		want := [][]string{onNode, onPod}
		for limit := time.Now().Add(40 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			got := [][]string{api.described("Node", "", node, node), api.described("Pod", pod.Namespace, pod.Name, string(pod.UID))}
			diff := cmp.Diff(want, got)
			if diff == "" {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("%s: Events of node and pod (-want +got):\n%s", when, diff)
			}
		}
	}
	both := func(e string) { onNode, onPod = append(onNode, e), append(onPod, e) }
	r.do(r.node.Set(cardA.Address, 0, "errors/errors", broken))
	both("Warning DeviceUnhealthy 3b:00.0 x1")
	await("broken")
	r.do(r.node.Set(cardA.Address, 0, "errors/errors", whole))
	both("Normal DeviceRecovered 3b:00.0 x1")
	await("whole")
	r.do(r.node.Set(cardA.Address, 0, "errors/errors", broken))
	onNode[slices.Index(onNode, "Warning DeviceUnhealthy 3b:00.0 x1")] = "Warning DeviceUnhealthy 3b:00.0 x2"
	onPod[slices.Index(onPod, "Warning DeviceUnhealthy 3b:00.0 x1")] = "Warning DeviceUnhealthy 3b:00.0 x2"
	await("broken again")
	r.do(r.node.Unplug(cardA.Address))
	both("Warning DeviceRemovedInUse 3b:00.0 x1")
	onNode = append(onNode, "Normal DeviceRemoved 3b:00.0-p1 x1")
	await("pulled")
}
