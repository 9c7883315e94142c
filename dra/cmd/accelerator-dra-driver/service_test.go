package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/devicemetadata"
	kubelet "k8s.io/kubelet/pkg/apis/dra/v1"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/dra/test/cluster"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/task"
)

const (
	testNode = "worker-3"
	card     = "0000:3b:00.0"
	device   = "pci-0000-3b-00-0"
)

// rig is a driver on a simulated node with a fake API server, and plays its kubelet.
type rig struct {
	*testing.T
	cfg      config.Config
	settings settings
	node     *simnode.Node
	client   *fake.Clientset
	services *grpc.ClientConn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "dra") // short, for the paths of sockets
	must.Succeed(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	node := must.Value(simnode.Open(t.Context(), dir+"/node"))(t)
	t.Cleanup(func() { node.Close() })
	must.Succeed(t, os.Mkdir(dir+"/registry", 0o755))

	r := &rig{T: t, node: node, client: cluster.Client(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "n"}})}
	r.cfg = config.Defaults()
	r.cfg.SysfsRoot, r.cfg.DevRoot, r.cfg.HostDevRoot = node.Sys, node.Dev, "/dev"
	r.cfg.NodeName, r.cfg.NodeAnnotation, r.cfg.HTTPAddress = testNode, false, ""
	r.cfg.Socket, r.cfg.StateDir, r.cfg.CDIDir = dir+"/daemon.sock", dir+"/state", dir+"/cdi"
	r.cfg.PodResourcesSocket, r.cfg.KubeletDir = dir+"/none.sock", dir+"/kubelet"
	r.cfg.RecoveryHold, r.cfg.FlapLimit, r.cfg.HealthInterval = 100*time.Millisecond, 0, 50*time.Millisecond
	r.settings = settings{pluginDir: dir + "/plugin", registryDir: dir + "/registry", taintEffect: "NoExecute", deviceMetadata: true}
	return r
}

// run runs the driver and registers it. stop ends it.
func (r *rig) run() (stop func()) {
	r.Helper()
	stop, _ = r.start()
	r.register()
	return stop
}

// start runs the driver, and returns its log. stop ends it.
func (r *rig) start() (stop func(), logs *observer.ObservedLogs) {
	r.Helper()
	core, logs := eventtest.Observed(r.T)
	return task.Run(r, newDaemon(r.cfg, r.settings, r.client, zap.New(core), metrics.New("test")).Serve), logs
}

// register registers the driver, as the kubelet does.
func (r *rig) register() {
	r.Helper()
	r.services = cluster.Register(r, r.settings.registryDir, true)
}

// published blocks until the slices have these devices, each as NAME or NAME:TAINT:EFFECT.
func (r *rig) published(when string, want ...string) {
	r.Helper()
	patient.Await(r, when, func() error {
		var found []string
		all := must.Value(r.client.ResourceV1().ResourceSlices().List(r.Context(), metav1.ListOptions{}))(r.T)
		for _, s := range all.Items {
			for _, d := range s.Spec.Devices {
				text := d.Name
				for _, taint := range d.Taints {
					text += ":" + taint.Value + ":" + string(taint.Effect)
				}
				found = append(found, text)
			}
		}
		if len(all.Items) == 0 || !slices.Equal(found, want) {
			return fmt.Errorf("found %q in %d slices, want %q", found, len(all.Items), want)
		}
		return nil
	})
}

// claim makes a claim that has the device allocated, with the AFU unless it is "".
func (r *rig) claim(name string, afu ...string) *kubelet.Claim {
	r.Helper()
	var configs []resourceapi.DeviceAllocationConfiguration
	for _, id := range afu {
		text := fmt.Sprintf(`{"apiVersion": "accelerator.b-com.com/v1alpha1", "kind": "AcceleratorConfig", "afuId": %q}`, id)
		configs = append(configs, resourceapi.DeviceAllocationConfiguration{
			Source: resourceapi.AllocationConfigSourceClaim,
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: draname.Driver, Parameters: runtime.RawExtension{Raw: []byte(text)},
			}},
		})
	}
	must.Value(r.client.ResourceV1().ResourceClaims("default").Create(r.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "card", Driver: draname.Driver, Pool: testNode, Device: device}},
			Config:  configs,
		}}},
	}, metav1.CreateOptions{}))(r.T)
	return &kubelet.Claim{Namespace: "default", Name: name, Uid: "uid-" + name}
}

// prepare calls NodePrepareResources, and returns the CDI device or the error. Its deadline leaves the
// driver no time to wait for a device.
func (r *rig) prepare(claim *kubelet.Claim) (cdiDevice, failed string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 4*time.Second)
	defer cancel()
	answer := must.Value(kubelet.NewDRAPluginClient(r.services).NodePrepareResources(ctx, &kubelet.NodePrepareResourcesRequest{Claims: []*kubelet.Claim{claim}}))(r.T)
	result := answer.Claims[claim.Uid]
	if result.GetError() != "" {
		return "", result.Error
	}
	return result.Devices[0].CdiDeviceIds[0], ""
}

// given prepares a claim, and expects no error.
func (r *rig) given(claim *kubelet.Claim) {
	r.Helper()
	_, failed := r.prepare(claim)
	compare.Equal(r, "error of prepare", "", failed)
}

func (r *rig) unprepare(claim *kubelet.Claim) {
	r.Helper()
	answer := must.Value(kubelet.NewDRAPluginClient(r.services).NodeUnprepareResources(r.Context(), &kubelet.NodeUnprepareResourcesRequest{Claims: []*kubelet.Claim{claim}}))(r.T)
	compare.Equal(r, "NodeUnprepareResources", "", answer.Claims[claim.Uid].GetError())
}

// spec returns the nodes, the variables and the hook of each device in the CDI spec.
func (r *rig) spec() map[string][]string {
	r.Helper()
	all := map[string][]string{}
	text, err := os.ReadFile(r.cfg.CDIDir + "/accelerator.b-com.com-claim.json")
	if os.IsNotExist(err) {
		return all
	}
	must.Succeed(r.T, err)
	var spec struct {
		Devices []struct {
			Name           string
			ContainerEdits struct {
				Env         []string
				DeviceNodes []struct{ HostPath string }
				Hooks       []struct {
					Path string
					Args []string
				}
			}
		}
	}
	must.Succeed(r.T, json.Unmarshal(text, &spec))
	for _, d := range spec.Devices {
		for _, n := range d.ContainerEdits.DeviceNodes {
			all[d.Name] = append(all[d.Name], n.HostPath)
		}
		all[d.Name] = append(all[d.Name], d.ContainerEdits.Env...)
		for _, h := range d.ContainerEdits.Hooks {
			all[d.Name] = append(all[d.Name], h.Path+": "+strings.Join(h.Args, " "))
		}
	}
	return all
}

// describes expects that a container of the claim finds the attributes that its device has in the slice.
func (r *rig) describes(claim *kubelet.Claim) {
	r.Helper()
	file := must.Value(os.Open(r.settings.pluginDir + "/metadata/" + claim.Uid + ".card.json"))(r.T)
	defer file.Close()
	var content metadata.DeviceMetadata
	must.Succeed(r.T, devicemetadata.DecodeMetadataFromStream(json.NewDecoder(file), &content))
	published := must.Value(r.client.ResourceV1().ResourceSlices().List(r.Context(), metav1.ListOptions{}))(r.T)
	compare.Values(r, "attributes", published.Items[0].Spec.Devices[0].Attributes, content.Requests[0].Devices[0].Attributes)
}

func plug(t *testing.T, n *simnode.Node, board string) {
	t.Helper()
	b, err := simnode.BoardNamed(board)
	must.Succeed(t, err, n.PlugBoard(b, card))
}

// The life of a card: it is plugged in, prepared for a claim, breaks, heals, is cordoned, and is removed while the
// claim has it. The driver is restarted in between.
func TestStory(t *testing.T) {
	r := newRig(t)
	stop := r.run()
	r.published("no card")
	plug(t, r.node, "pac-a10")
	r.published("plugged", device)

	first := r.claim("first")
	cdiDevice, failed := r.prepare(first)
	if want := "accelerator.b-com.com/claim=uid-first-card-" + device; cdiDevice != want || failed != "" {
		t.Fatalf("prepare: found %q, error %q, want %s", cdiDevice, failed, want)
	}
	want := map[string][]string{"uid-first-card-" + device: {
		"/dev/dfl-port.0", "ACCELERATOR_UNITS=3b:00.0", "ACCELERATOR_DEVICES=3b:00.0", "ACCELERATOR_DEVICE_PCI_0000_3B_00_0=3b:00.0",
	}}
	compare.Values(t, "CDI spec", want, r.spec())
	r.describes(first)
	second := r.claim("second")
	_, failed = r.prepare(second)
	compare.Contains(t, "second claim of the device: error", "is prepared for claim default/first", failed)

	must.Succeed(t, r.node.Break(card, "port-ap6"))
	r.published("broken", device+":port-ap6:NoExecute")
	must.Succeed(t, r.node.Heal(card))
	r.published("healed", device)
	daemon := control.Dial(r.cfg.Socket)
	must.Value(daemon.Cordon(t.Context(), []string{"3b:00.0"}, "me", "fan", 0))(t)
	r.published("cordoned", device+":cordoned:NoSchedule")
	must.Value(daemon.Uncordon(t.Context(), []string{"3b:00.0"}, "me"))(t)
	r.published("uncordoned", device)

	stop() // the spec goes with the last driver, and returns with the next
	compare.Empty(t, "CDI spec without a driver", r.spec())
	stop = r.run()
	patient.Until(r, "CDI spec after the restart", func() bool { return cmp.Equal(want, r.spec()) })

	must.Succeed(t, r.node.Unplug(card))
	r.published("removed", device+":removed-in-use:NoExecute")
	patient.Until(r, "CDI spec without the removed card", func() bool { return len(r.spec()) == 0 })
	stop()
	r.run()
	r.published("removed, and the driver restarted", device+":removed-in-use:NoExecute")
	state, err := daemon.State(t.Context())
	if err != nil || len(state.Devices) != 1 || state.Devices[0].Resource != draname.Driver || state.Devices[0].Health != "unhealthy" {
		t.Errorf("state at the socket: found %+v, error %v, want the removed device", state.Devices, err)
	}
	r.unprepare(first)
	r.published("unprepared")

	// A card that has left between the allocation and the start of its pod.
	_, failed = r.prepare(second)
	compare.Contains(t, "claim of a removed device: error", "has left the node", failed)
	r.published("waiting", device+":removed-in-use:NoExecute")
	r.unprepare(second)
	r.published("the waiting pod has ended")
}

// A card is programmed for a claim. With the new AFU it remains the same device, even after the card was away and the
// driver was restarted. The hook itself is tested in package hook and on a real kernel.
func TestProgramming(t *testing.T) {
	const afu = bits.OtherAFU
	r := newRig(t)
	dir := filepath.Dir(r.cfg.CDIDir)
	store := programming.Store(dir + "/store")
	r.cfg.ProgrammingHook, r.cfg.ProgrammingHookArgs = "/opt/accelerator-fpga", []string{"--timeout", "60s", "--store", string(store)}
	stop := r.run()
	plug(t, r.node, "pac-a10")
	r.published("plugged", device)
	state := must.Value(control.Dial(r.cfg.Socket).State(t.Context()))(t)
	region, before := state.Devices[0].InterfaceID, state.Devices[0].AFUID

	first := r.claim("first", afu)
	want := "claim default/first: device " + device + " (3b:00.0) of request card: has AFU " + before + ", but the claim requests " + afu + ": no bitstream for interface " + region
	if _, failed := r.prepare(first); !strings.HasPrefix(failed, want) || strings.Contains(failed, "\n") {
		t.Fatalf("without a bitstream: error %q, want one line with %q", failed, want)
	}
	must.Succeed(t, os.Chmod(dir, 0o755), os.WriteFile(dir+"/a.gbs", bits.GBS(bits.Metadata(region, afu), make([]byte, 64)), 0o644))
	b, err := programming.Open(dir + "/a.gbs")
	must.Succeed(t, err)
	_, err = store.Install(t.Context(), b, programming.InstallOptions{})
	must.Succeed(t, err, b.Close())
	r.given(first)
	spec := map[string][]string{"uid-first-card-" + device: {
		"/dev/dfl-port.0", "ACCELERATOR_UNITS=3b:00.0", "ACCELERATOR_DEVICES=3b:00.0", "ACCELERATOR_DEVICE_PCI_0000_3B_00_0=3b:00.0",
		"/opt/accelerator-fpga: accelerator-fpga hook --device 3b:00.0-p0 --afu " + afu + " --timeout 60s --store " + string(store),
	}}
	compare.Values(t, "CDI spec", spec, r.spec())

	has := func(when, afu string) {
		t.Helper()
		patient.Until(r, "AFU "+when, func() bool {
			state := must.Value(control.Dial(r.cfg.Socket).State(t.Context()))(t)
			return len(state.Devices) == 1 && state.Devices[0].AFUID == afu && state.Devices[0].Health == "healthy"
		})
		r.published(when, device)
		patient.Until(r, "CDI spec "+when, func() bool { return cmp.Equal(spec, r.spec()) })
		r.given(first) // for another pod with the claim
	}
	must.Succeed(t, r.node.Reprogram(card, 0, afu))
	has("programmed", afu)
	for _, restart := range []bool{false, true} {
		must.Succeed(t, r.node.Unplug(card))
		r.published("removed", device+":removed-in-use:NoExecute")
		if restart {
			stop()
			r.run()
			r.published("removed, and the driver restarted", device+":removed-in-use:NoExecute")
		}
		plug(t, r.node, "pac-a10")
		spec["uid-first-card-"+device][0] = "/dev/" + r.node.PortNode(card, 0)
		has("plugged in with the AFU of its flash memory", before)
	}
	must.Succeed(t, r.node.Reprogram(card, 0, afu))
	has("programmed again", afu)
	r.unprepare(first)

	// Without a configuration, another AFU is another device.
	second := r.claim("second")
	r.given(second)
	must.Succeed(t, r.node.Unplug(card))
	r.published("removed", device+":removed-in-use:NoExecute")
	plug(t, r.node, "pac-a10")
	r.published("with another AFU", device+":replaced-in-use:NoExecute")
	r.unprepare(second)
	r.published("free", device)
}

// The hook's store is taken from its arguments.
func TestProgrammingSettings(t *testing.T) {
	cfg := config.Defaults()
	if p := programmingOf(cfg); p != nil {
		t.Errorf("without a hook: found %+v, want none", p)
	}
	cfg.ProgrammingHook = "/h"
	for args, want := range map[string]programming.Store{
		"": "/srv/intel.com/fpga", "--timeout=1s --lock-dir /l --store=/a -v": "/a", "--store /a --log-file /l --store /b": "/b", "--timeout 1s": "/srv/intel.com/fpga",
	} {
		cfg.ProgrammingHookArgs = strings.Fields(args)
		if p := programmingOf(cfg); p.Store != want || p.Hook.Path != "/h" || !slices.Equal(p.Hook.Args, cfg.ProgrammingHookArgs) || !p.Ports {
			t.Errorf("%s: found %+v, want the store %s", args, p, want)
		}
	}
	cfg.Mode = "region"
	if programmingOf(cfg).Ports {
		t.Error("mode region: devices are ports, want cards")
	}
}

// With --claim-status, the status of a prepared claim shows its device. Without it, the driver does not write to
// claims.
func TestClaimStatus(t *testing.T) {
	for _, on := range []bool{false, true} {
		r := newRig(t)
		r.settings.claimStatus = on
		plug(t, r.node, "pac-a10")
		stop := r.run()
		r.published("plugged", device)
		r.given(r.claim("first"))
		if on {
			patient.Until(r, "device in the status of the claim", func() bool {
				claim := must.Value(r.client.ResourceV1().ResourceClaims("default").Get(t.Context(), "first", metav1.GetOptions{}))(t)
				return len(claim.Status.Devices) == 1 && claim.Status.Devices[0].Device == device && claim.Status.Devices[0].Conditions[0].Reason == "Healthy"
			})
		}
		stop()
		for _, a := range r.client.Actions() {
			if writes := a.GetVerb() != "get" && a.GetVerb() != "create"; a.GetResource().Resource == "resourceclaims" && writes && !on {
				t.Errorf("found the request %s, want none that writes a claim", a.GetVerb())
			}
		}
	}
}

// The containers of a claim get the names that the kubelet reports. Even without the names, the device counts as held.
func TestHolders(t *testing.T) {
	r := newRig(t)
	plug(t, r.node, "pac-a10")
	r.cfg.PodResourcesSocket = filepath.Dir(r.cfg.Socket) + "/pods.sock"
	r.run()
	r.published("plugged", device)
	first := r.claim("first")
	r.given(first)
	holder := func(want string) {
		t.Helper()
		patient.Until(r, "holder "+want, func() bool {
			row := must.Value(control.Dial(r.cfg.Socket).State(t.Context()))(t).Devices[0]
			return fmt.Sprintf("%t %s", row.Held != nil && *row.Held, row.Holder) == want
		})
	}
	holder("true []")
	pods := must.Value(simkubelet.StartPodResources(t.Context(), r.cfg.PodResourcesSocket))(t)
	t.Cleanup(pods.Stop)
	pods.HoldClaim("default", "pod", "main", "first", draname.Driver, device)
	holder("true [default/pod/main]")
	pods.Release("default", "pod")
	r.unprepare(first)
	holder("false []")
}

// A setting that is not valid ends the program with exit code 2 and one line, which names it.
func TestRefusedSettings(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "node-name: found none"},
		{"--node-name n --mode pool", "mode: found pool, want single, af, region or regiondevel"},
		{"--node-name n --mode regiondevel --cdi-dir /c --programming-hook /h", `programming-hook: found "/h" with mode regiondevel, want another mode`},
		{"--node-name n --taint-effect no", `taint-effect: found "no", want NoExecute or NoSchedule`},
		{"--node-name n --plugin-dir x", `plugin-dir: found "x", want an absolute path`},
		{"--node-name n --registry-dir x", `registry-dir: found "x", want an absolute path`},
		{"--node-name n --pod-uid a/b", `pod-uid: found "a/b"`},
		{"--node-name n --kubeconfig /none", "/none"},
		{"--node-name n serve", `unknown command "serve"`},
		{"--nodename n", "unknown flag: --nodename"},
	} {
		var out bytes.Buffer
		code := run(t.Context(), strings.Fields(tt.args), &out, &out)
		wantCode := 2
		if strings.Contains(tt.args, "kubeconfig") { // found at the start
			wantCode = 1
		}
		if code != wantCode || !strings.Contains(out.String(), strings.ReplaceAll(tt.want, `"`, `\"`)) {
			t.Errorf("%s: exit code %d, output %s; want code %d and %s", tt.args, code, out.String(), wantCode, tt.want)
		}
	}
}

// An environment variable sets what no flag has set.
func TestVariables(t *testing.T) {
	t.Setenv("ACCELERATOR_TAINT_EFFECT", "NoSchedule")
	t.Setenv("ACCELERATOR_PLUGIN_DIR", "relative")
	var out bytes.Buffer
	if code := run(t.Context(), []string{"--node-name", "n", "--plugin-dir", "/p", "--registry-dir", "x"}, &out, &out); code != 2 ||
		strings.Contains(out.String(), "plugin-dir") || strings.Contains(out.String(), "taint-effect") {
		t.Errorf("exit code %d, output %s, want an error of registry-dir only", code, out.String())
	}
}

// With --finish-claims, the driver uses nothing that belongs to the device plugin on the node.
func TestFinishSettings(t *testing.T) {
	t.Setenv("ACCELERATOR_DEVICE_METADATA", "false")
	for _, tt := range []struct {
		args     []string
		variable string
		want     bool
		failed   string
	}{
		{nil, "", false, ""},
		{nil, "false", false, ""},
		{nil, "true", true, ""},
		{[]string{"--finish-claims"}, "false", true, ""},
		{nil, "yes", false, `finish-claims: found "yes", want true or false`},
	} {
		if tt.variable != "" {
			t.Setenv("ACCELERATOR_FINISH_CLAIMS", tt.variable)
		}
		fs, loader, s := pflag.NewFlagSet("", pflag.ContinueOnError), daemon.NewLoader(), settings{}
		addSettings(fs, loader, &s)
		must.Succeed(t, fs.Parse(append(tt.args, "--node-name", "n", "--events", "--node-condition-type", "a.b/C")))
		cfg, err := s.load(fs, loader)
		if tt.failed != "" {
			compare.Error(t, fmt.Sprintf("%q", tt.variable), tt.failed, err)
			continue
		}
		must.Succeed(t, err)
		if s.deviceMetadata {
			t.Error("ACCELERATOR_DEVICE_METADATA=false: found metadata files on, want them off")
		}
		if none := cfg.Socket == "" && cfg.StateDir == "" && !cfg.Events && cfg.NodeConditionType == ""; none != tt.want || s.finishClaims != tt.want {
			t.Errorf("%q, %q: finishes %t, socket %q, state directory %q, Events %t, condition %q; want %t", tt.args, tt.variable,
				s.finishClaims, cfg.Socket, cfg.StateDir, cfg.Events, cfg.NodeConditionType, tt.want)
		}
	}
}

// Such a driver does not read sensors: the device plugin reads them, and only one daemon may read a card's sensors.
func TestFinishReadsNoSensors(t *testing.T) {
	r := newRig(t)
	r.settings.finishClaims = true
	r.cfg.SensorInterval = time.Second
	plug(t, r.node, "pac-a10")
	sensor, err := filepath.EvalSymlinks(r.node.Sys + "/class/hwmon/hwmon0/temp1_input")
	must.Succeed(t, err, os.Remove(sensor), syscall.Mkfifo(sensor, 0o600))
	stop := r.run()
	state, err := control.Dial(r.cfg.Socket).State(t.Context()) // when all cards have been read
	must.Succeed(t, err)
	if len(state.Devices) == 0 {
		t.Error("devices: found none, want those of the card")
	}
	stop()
	reader, err := os.OpenFile(sensor, os.O_WRONLY|syscall.O_NONBLOCK, 0) // ends a reading, which hangs
	if err == nil {
		reader.Close()
		t.Error("sensors: found a reading, want none")
	}
}

// Settings of the device plugin are accepted, and the log names them.
func TestSettingsWithoutEffect(t *testing.T) {
	file := t.TempDir() + "/config.yaml"
	must.Succeed(t, os.WriteFile(file, []byte("resourceName: b-com.com/x\nresources: [{name: b-com.com/y, match: {family: dfl}}]\n"), 0o600))
	var out bytes.Buffer
	run(t.Context(), []string{"--node-name", "n", "--kubeconfig", "/none", "--config", file, "--kubelet-dir", "/k"}, &out, &out)
	var got []string
	for _, match := range regexp.MustCompile(`with DRA".*"flag":"([^"]*)"`).FindAllStringSubmatch(out.String(), -1) {
		got = append(got, match[1])
	}
	if diff := cmp.Diff([]string{"resource-name", "kubelet-dir", "resources"}, got); diff != "" {
		t.Errorf("flags (-want +got):\n%s\n%s", diff, out.String())
	}
}

// Devices that are advertised only by a rule are published only if a rule matches them. In this case, rules have an
// effect.
func TestOnlyByRule(t *testing.T) {
	file := t.TempDir() + "/config.yaml"
	must.Succeed(t, os.WriteFile(file, []byte("families: [dfl, vfio]\nresources: [{name: b-com.com/vf, match: {family: vfio, vendor: \"8086\"}}]\n"), 0o600))
	var out bytes.Buffer
	run(t.Context(), []string{"--node-name", "n", "--kubeconfig", "/none", "--config", file}, &out, &out)
	if strings.Contains(out.String(), "with DRA") {
		t.Errorf("log: found a setting without effect, want none:\n%s", out.String())
	}
	cfg := config.Defaults()
	cfg.Resources = []offer.Rule{{Resource: "b-com.com/vf", Match: offer.Match{Family: "vfio", PCIVendor: "8086"}}}
	policy := (&api{owned: offer.NewOwnership(daemon.OfferNaming(cfg))}).Policy(cfg, nil)
	for _, tc := range []struct {
		device inventory.Device
		want   string
	}{
		{inventory.Device{ID: "3b:00.0", Family: "dfl", Facts: inventory.Facts{PCIID: "8086:09c4:8086:0000"}}, "accelerator.b-com.com"},
		{inventory.Device{ID: "3b:00.1", Family: "vfio", Facts: inventory.Facts{PCIID: "8086:bccf:8086:1771", OnlyByRule: true}}, "accelerator.b-com.com"},
		{inventory.Device{ID: "5e:00.0", Family: "vfio", Facts: inventory.Facts{PCIID: "15b3:1018:15b3:0000", OnlyByRule: true}}, ""},
	} {
		if got, err := policy.Name(&tc.device); got != tc.want || err != nil {
			t.Errorf("%s: found %q, %v, want %q", tc.device.ID, got, err, tc.want)
		}
	}
}

// Devices that pods got from the device plugin are published with a taint, and are not prepared for any claim until the
// pods have ended. The name of the resource does not matter, because the settings may have changed since. The devices
// of mode pool are not cards.
func TestHeldByThePlugin(t *testing.T) {
	for _, resource := range []string{"b-com.com/accelerator", "example.com/former"} {
		t.Run(resource, func(t *testing.T) {
			r := newRig(t)
			plug(t, r.node, "pac-a10")
			r.cfg.PodResourcesSocket = filepath.Join(filepath.Dir(r.cfg.PodResourcesSocket), "pods.sock")
			must.Succeed(t, os.Mkdir(r.cfg.KubeletDir, 0o755))
			pods := must.Value(simkubelet.StartPodResources(t.Context(), r.cfg.PodResourcesSocket))(t)
			defer pods.Stop()
			pods.Hold("default", "job", "main", resource, "3b:00.0")
			pods.Hold("default", "units", "main", "b-com.com/accelerator", "0", "1")
			pods.Hold("default", "other", "main", "example.com/gpu", "5e:00.0") // its nodes are not known, and do not matter
			pods.Behave(simkubelet.PodBehaviour{Stall: true})
			r.run()
			must.Succeed(t, pods.AwaitAsked(t.Context(), 2))
			all, err := r.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
			if must.Succeed(t, err); len(all.Items) > 0 {
				t.Errorf("found slices before the kubelet's first answer: %v", all.Items)
			}
			pods.Behave(simkubelet.PodBehaviour{})
			r.published("held", device+":held-other-api:NoSchedule")
			state := must.Value(control.Dial(r.cfg.Socket).State(t.Context()))(t)
			if len(state.Devices) != 1 || state.Devices[0].Resource != resource || !slices.Equal(state.Devices[0].Holder, []string{"default/job/main"}) {
				t.Errorf("devices: found %+v, want one that default/job/main holds", state.Devices)
			}
			pods.Release("default", "job")
			r.published("free", device)
			r.given(r.claim("one"))
			pods.HoldClaim("default", "dra", "main", "one", draname.Driver, device)
		})
	}
}
