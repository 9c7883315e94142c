package claims_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/dra/claims"
	draslices "b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	kind     = "accelerator.b-com.com/claim"
	specName = "accelerator.b-com.com-claim.json"
	node     = "node1"
	afu      = "d8424dc4a4a3c413f89e433683f9040b"
)

// rig is a node with devices, and one instance of the driver on it.
type rig struct {
	*claims.Claims
	t         testing.TB
	dir, cdi  string
	boot      string
	spec      *cdi.Spec
	programs  *claims.Programming
	describes bool // containers get metadata files
	snapshots *latest.Value[inventory.Snapshot]
	elsewhere map[string][]inventory.Holding // through the device plugin API
	client    kubernetes.Interface           // nil: claims are not compared with the API server
	named     func(context.Context) (map[string]bool, error)
	claimed   map[string][]string // what a device plugin would know
	unclaimed error               // of remembering that
	onLatest  func()              // called before each use of the newest snapshot; may be nil
	logs      *observer.ObservedLogs
	metrics   *metrics.Metrics
}

func (r *rig) Latest() (inventory.Snapshot, <-chan struct{}) {
	if r.onLatest != nil {
		r.onLatest()
	}
	return r.snapshots.Load()
}

// newRig starts an instance on an empty node with these devices.
func newRig(t testing.TB, devices ...*inventory.Device) *rig {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755))
	r := &rig{t: t, dir: dir + "/plugin", cdi: dir + "/cdi", snapshots: latest.New(inventory.Snapshot{})}
	r.open()
	r.set(devices...)
	return r
}

// open starts the instance. The test closes its spec.
func (r *rig) open() {
	r.t.Helper()
	r.spec = must.Value(cdi.Open(r.cdi, kind, "/dev"))(r.t)
	core, logs := eventtest.Observed(r.t)
	r.logs, r.metrics = logs, metrics.New("test")
	cfg := claims.Config{
		HostSysRoot: "/sys",
		Dir:         r.dir, Boot: r.boot, Node: node, Spec: r.spec, Devices: r, Taints: taints,
		Elsewhere: func(context.Context) map[string][]inventory.Holding { return r.elsewhere }, Programming: r.programs, Client: r.client, Named: r.named, Log: zap.New(core), Metrics: r.metrics,
	}
	cfg.Claimed = func(_ context.Context, nodes map[string][]string) error {
		if r.unclaimed == nil {
			r.claimed = nodes
		}
		return r.unclaimed
	}
	if r.describes {
		cfg.Attributes = draslices.Options{}.Attributes
	}
	r.Claims = must.Value(claims.Open(cfg))(r.t)
	spec := r.spec
	r.t.Cleanup(func() { _ = spec.Close() })
}

// peer starts another instance on the node, with the same devices.
func (r *rig) peer() *rig {
	r.t.Helper()
	p := *r
	p.open()
	return &p
}

// set publishes a complete snapshot.
func (r *rig) set(devices ...*inventory.Device) {
	slices.SortFunc(devices, func(a, b *inventory.Device) int { return strings.Compare(a.ID, b.ID) })
	r.snapshots.Update(func(s inventory.Snapshot) inventory.Snapshot {
		return inventory.Snapshot{Version: s.Version + 1, Complete: true, Devices: devices}
	})
}

// taints returns the taint of an unhealthy device: NoSchedule if it is recovering.
func taints(d *inventory.Device) []resourceapi.DeviceTaint {
	if d.Health != inventory.Unhealthy {
		return nil
	}
	taint := resourceapi.DeviceTaint{Key: draname.Taint, Value: strings.ReplaceAll(d.Reasons[0], "=", "."), Effect: resourceapi.DeviceTaintEffectNoExecute}
	if strings.HasPrefix(d.Reasons[0], "recovering") {
		taint.Effect = resourceapi.DeviceTaintEffectNoSchedule
	}
	return []resourceapi.DeviceTaint{taint}
}

// port returns a healthy device with the node dfl-port.N, whose number is 240:N.
func port(id string, n int) *inventory.Device {
	return &inventory.Device{ID: id, OfferedAs: draname.Driver, Facts: inventory.Facts{AFUID: afu, Nodes: []string{fmt.Sprint("dfl-port.", n)}, NodeNumbers: []string{fmt.Sprint("240:", n)}}}
}

func sick(d *inventory.Device, reasons ...string) *inventory.Device {
	d.Health, d.Reasons = inventory.Unhealthy, reasons
	return d
}

// tombstone returns the device that stays listed after it has left.
func tombstone(id, reason string) *inventory.Device {
	return sick(&inventory.Device{ID: id, OfferedAs: draname.Driver}, reason)
}

// result is an allocated device: REQUEST ID.
func result(request, id string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Request: request, Driver: draname.Driver, Pool: node, Device: draname.Device(id)}
}

func admin(r resourceapi.DeviceRequestAllocationResult) resourceapi.DeviceRequestAllocationResult {
	yes := true
	r.AdminAccess = &yes
	return r
}

// claimOf returns a claim in the namespace default whose uid is uid-NAME.
func claimOf(name string, results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Status: resourceapi.ResourceClaimStatus{
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}},
		},
	}
}

// twoCards returns a node with two devices, and a claim for each of them.
func twoCards(t testing.TB) (r *rig, one, two *resourceapi.ResourceClaim) {
	t.Helper()
	r = newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
	return r, claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
}

// objectOf returns the name of a claim as Unprepare gets it.
func objectOf(c *resourceapi.ResourceClaim) kubeletplugin.NamespacedObject {
	return kubeletplugin.NamespacedObject{NamespacedName: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, UID: c.UID}
}

// opaque returns a configuration for this driver. The source is the claim.
func opaque(raw string, requests ...string) resourceapi.DeviceAllocationConfiguration {
	return resourceapi.DeviceAllocationConfiguration{
		Source: resourceapi.AllocationConfigSourceClaim, Requests: requests,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: draname.Driver, Parameters: runtime.RawExtension{Raw: []byte(raw)},
		}},
	}
}

func wantAFU(id string, requests ...string) resourceapi.DeviceAllocationConfiguration {
	return opaque(`{"apiVersion":"accelerator.b-com.com/v1alpha1","kind":"AcceleratorConfig","afuId":"`+id+`"}`, requests...)
}

// answer returns the expected answer for devices that are in the spec.
func answer(c *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	var want kubeletplugin.PrepareResult
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver != draname.Driver {
			continue
		}
		want.Devices = append(want.Devices, kubeletplugin.Device{
			Requests: []string{r.Request}, PoolName: node, DeviceName: r.Device,
			CDIDeviceIDs: []string{kind + "=" + cdiName(c, r)},
		})
	}
	return want
}

func cdiName(c *resourceapi.ResourceClaim, r resourceapi.DeviceRequestAllocationResult) string {
	return string(c.UID) + "-" + strings.ReplaceAll(r.Request, "/", ".") + "-" + r.Device
}

// prepare expects that claims get their devices.
func (r *rig) prepare(all ...*resourceapi.ResourceClaim) {
	r.t.Helper()
	for _, c := range all {
		got := r.Prepare(r.t.Context(), c)
		if diff := cmp.Diff(answer(c), got); got.Err != nil || diff != "" {
			r.t.Errorf("Prepare %s: %v, answer (-want +got):\n%s", c.Name, got.Err, diff)
		}
	}
}

// refuse expects that a claim gets no devices, and an error that begins with its name and contains want.
func (r *rig) refuse(c *resourceapi.ResourceClaim, want string) {
	r.t.Helper()
	r.refuseWithin(time.Minute, c, want)
}

// refuseNow is like refuse, for a kubelet whose deadline leaves no time to wait.
func (r *rig) refuseNow(c *resourceapi.ResourceClaim, want string) {
	r.t.Helper()
	r.refuseWithin(4*time.Second, c, want)
}

func (r *rig) refuseWithin(limit time.Duration, c *resourceapi.ResourceClaim, want string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	got := r.Prepare(ctx, c)
	if got.Err == nil || len(got.Devices) > 0 || !strings.HasPrefix(got.Err.Error(), "claim default/"+c.Name+": ") || !strings.Contains(got.Err.Error(), want) {
		r.t.Errorf("Prepare %s: found %v, %v, want an error with %q", c.Name, got.Devices, got.Err, want)
	}
}

func (r *rig) unprepare(all ...*resourceapi.ResourceClaim) {
	r.t.Helper()
	for _, c := range all {
		compare.NoError(r.t, fmt.Sprintf("Unprepare %s", c.Name), r.Unprepare(r.t.Context(), objectOf(c)))
	}
}

// holds expects these holdings: "ID NODE NODE", followed by "later NODE NODE" if there are any.
func (r *rig) holds(want ...string) {
	r.t.Helper()
	held, err := r.Holdings(r.t.Context())
	compare.NoError(r.t, "Holdings", err)
	var got []string
	for id, holdings := range held {
		for _, h := range holdings {
			if h.As != draname.Driver || len(h.Holders) > 0 || h.NodesErr != nil {
				r.t.Errorf("holding of %s: found %+v, want it as %s without holders", id, h, draname.Driver)
			}
			words := append([]string{id}, h.Nodes...)
			if len(h.Later) > 0 {
				words = append(append(words, "later"), h.Later...)
			}
			got = append(got, strings.Join(words, " "))
		}
	}
	slices.Sort(got)
	compare.Values(r.t, "holdings", want, got)
}

// injects expects the devices in the spec: "CDI-NAME NODE".
func (r *rig) injects(want ...string) {
	r.t.Helper()
	slices.Sort(want)
	compare.Values(r.t, "CDI devices", want, r.injected())
}

func (r *rig) injected() (got []string) {
	r.t.Helper()
	for _, d := range r.cdiDevices() {
		for _, n := range d.ContainerEdits.DeviceNodes {
			got = append(got, d.Name+" "+strings.TrimPrefix(n.HostPath, "/dev/"))
		}
		for _, m := range d.ContainerEdits.Mounts {
			got = append(got, d.Name+" "+m.HostPath)
		}
	}
	slices.Sort(got)
	return got
}

type cdiDevice struct {
	Name           string
	ContainerEdits struct {
		DeviceNodes []struct{ HostPath string }
		Mounts      []struct {
			HostPath, ContainerPath string
			Options                 []string
		}
		Hooks []struct {
			HookName, Path string
			Args, Env      []string
			Timeout        int
		}
	}
}

// cdiDevices returns the devices in the spec.
func (r *rig) cdiDevices() []cdiDevice {
	r.t.Helper()
	var spec struct{ Devices []cdiDevice }
	if text := r.specText(); text != "" {
		must.Succeed(r.t, json.Unmarshal([]byte(text), &spec))
	}
	return spec.Devices
}

// devicesOf returns the expected lines of injects for the devices of a claim.
func devicesOf(c *resourceapi.ResourceClaim, nodes ...string) (lines []string) {
	for i, r := range c.Status.Allocation.Devices.Results {
		lines = append(lines, cdiName(c, r)+" "+nodes[i])
	}
	return lines
}

func (r *rig) specText() string { return readFile(r.t, filepath.Join(r.cdi, specName)) }

// file returns the text of the file, or "" if there is none.
func (r *rig) file() string { return readFile(r.t, filepath.Join(r.dir, claims.FileName)) }

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func (r *rig) writeFile(text string) {
	r.t.Helper()
	must.Succeed(r.t, os.WriteFile(filepath.Join(r.dir, claims.FileName), []byte(text), 0o600))
}

// added reports whether Added has an element, and removes it.
func (r *rig) added() bool {
	select {
	case <-r.Added():
		return true
	default:
		return false
	}
}

// lines returns the lines of the log since the last call: "event claim devices reason".
func (r *rig) lines() (all []string) {
	for _, l := range r.logs.TakeAll() {
		f := l.ContextMap()
		words := []string{}
		for _, key := range []string{"event", "claim", "devices", "reason", "error"} {
			if f[key] != nil {
				words = append(words, fmt.Sprint(f[key]))
			}
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

// newSnapshots returns a source without a snapshot.
func newSnapshots() *latest.Value[inventory.Snapshot] { return latest.New(inventory.Snapshot{}) }
