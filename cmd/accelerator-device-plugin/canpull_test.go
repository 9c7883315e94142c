package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/cmd/internal/canpull"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/task"
)

// fakeProc creates a procfs in which one of the host's processes has file open, or none has if file is "".
func fakeProc(t *testing.T, file string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"self/ns", "7/task/7", "7/fd"} {
		must.Succeed(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	links := map[string]string{"self/ns/pid": "pid:[4026531836]"}
	if file != "" {
		links["7/fd/3"] = file
	}
	for name, target := range links {
		must.Succeed(t, os.Symlink(target, filepath.Join(root, name)))
	}
	must.Succeed(t, os.WriteFile(filepath.Join(root, "7/comm"), []byte("a\x1b[2J\n"), 0o600))
	return root
}

// asks returns the answer for card A and the reasons for it.
func asks(t *testing.T, cfg config.Config, scan bool, procfs string) string {
	t.Helper()
	var out strings.Builder
	must.Succeed(t, printAnswer(&out, canpull.Judge(pullFacts(t.Context(), cfg, cardA.Address, scan, procfs)), false))
	return out.String()
}

// TestCanPull checks the answer while the card is advertised, held, free, and opened by a process, each time both with
// the daemon and with --scan.
func TestCanPull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes device nodes, and sees the processes of others")
	}
	do := func(errs ...error) {
		t.Helper()
		must.Succeed(t, errs...)
	}
	r, node, kubelet := cmdtest.Serve(t)
	dir := filepath.Dir(node.Sys)
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot, cfg.KubeletDir = node.Sys, node.Dev, filepath.Join(dir, "kubelet")
	cfg.Socket, cfg.StateDir, cfg.PodResourcesSocket = filepath.Join(dir, "daemon.sock"), filepath.Join(dir, "state"), filepath.Join(dir, "pods.sock")
	pods := must.Value(simkubelet.StartPodResources(t.Context(), cfg.PodResourcesSocket))(t)
	t.Cleanup(pods.Stop)
	node.Mknod = true
	do(node.Plug(cardA))
	must.Value(kubelet.AwaitList(t.Context(), testResource, func(l simkubelet.List) bool { return told(l)["3b:00.0"] && told(l)["3b:00.0-p1"] }))(t)
	pods.Hold("default", "job", "main", testResource, "3b:00.0-p1")
	port := filepath.Join(node.Dev, node.PortNode(cardA.Address, 1))
	pod := filepath.Join(filepath.Dir(cfg.KubeletDir), "pods/5e0b")
	idle, busy := fakeProc(t, ""), fakeProc(t, port)
	offered := "3b:00.0 is not cordoned: a new pod can get it at any time: accelerator-device-plugin cordon 3b:00.0 --why TEXT\n"
	held := "in use by default/job/main: ask the pod's owner, or run: kubectl --namespace default delete pod job\n"
	openable := ""
	for _, id := range []string{"3b:00.0", "3b:00.0-p1"} {
		openable += id + " has a device node that a container with another device may open: " +
			"the pod of the device that `devices` shows with removed-in-use, replaced-in-use or node-changed must end, but the node can crash then: see After an unplanned removal in docs/service.md; if there is no such device, another plugin's pod or a force-deleted pod has the node\n"
	}
	// The daemon reuses the kubelet's answer for a second.
	await := func(want string) {
		patient.Await(t, want, func() error {
			if got := asks(t, cfg, false, idle); got != want {
				return errors.New(got)
			}
			return nil
		})
	}
	open := "process 7 (a\\x1b[2J) has dfl-port.1 (120:1) open: end it\n"
	for _, step := range []struct {
		name string
		do   func()
		proc string
		want string
	}{
		{"offered and held", func() { await("no\n" + offered + held) }, idle, "no\n" + offered + held},
		{"cordoned", func() {
			must.Value(control.Dial(cfg.Socket).Cordon(t.Context(), []string{"3b:00.0"}, "test", "to be pulled", 0))(t)
		}, idle, "no\n" + held},
		{"free", func() {
			pods.Release("default", "job")
			await("yes\n")
		}, idle, "yes\n"},
		{"held by a claim on the DRA driver", func() {
			pods.HoldClaim("default", "job", "main", "fpga", draname.Driver, draname.Device("3b:00.0-p1"))
			await("no\n" + held)
		}, idle, "no\n" + held},
		{"free of the claim", func() {
			pods.Release("default", "job")
			await("yes\n")
		}, idle, "yes\n"},
		{"another pod's card has left, with any device node", func() {
			pods.Hold("default", "other", "main", testResource, "5e:00.0")
			await("no\n" + openable)
		}, idle, "no\n" + openable},
		{"that pod has ended", func() {
			pods.Release("default", "other")
			await("yes\n")
		}, idle, "yes\n"},
		{"opened", func() {}, busy, "no\n" + open},
		// This is the case for an init container, or soon after the kubelet has started.
		{"given, and not named", func() {
			do(os.MkdirAll(pod, 0o755), os.WriteFile(filepath.Join(cfg.KubeletDir, checkpoint.File),
				[]byte(`{"Data":{"PodDeviceEntries":[{"PodUID":"5e0b","DeviceIDs":{"-1":["3b:00.0-p1"]}}]}}`), 0o600))
		}, idle, "unknown\naccording to the kubelet's checkpoint, the pod with the UID 5e0b has the card, but the kubelet does not list this pod: the pod has ended, or only its init containers have the card, or the kubelet has just started: " +
			"find the pod with kubectl get pods -A -o custom-columns=UID:.metadata.uid,NAMESPACE:.metadata.namespace,NAME:.metadata.name; if no pod has this UID, it has ended, and no longer counts\n"},
		{"the pod has ended", func() { do(os.Remove(pod)) }, idle, "yes\n"},
	} {
		step.do()
		for _, scan := range []bool{false, true} {
			compare.Values(t, fmt.Sprintf("%s, scan %t", step.name, scan), step.want, asks(t, cfg, scan, step.proc))
		}
	}
	do(r.Process.Signal(syscall.SIGTERM), r.Wait())
	compare.Contains(t, "the daemon has ended", "unknown\nthe devices of the card are not known: ", asks(t, cfg, false, idle))
	compare.Equal(t, "the daemon has ended, scan", "yes\n", asks(t, cfg, true, idle))
	pods.Stop()
	compare.Contains(t, "no kubelet", "unknown\nit is unknown which containers use the card: ", asks(t, cfg, true, idle))
	do(os.WriteFile(filepath.Join(cfg.StateDir, "cordons.json"), []byte("rubbish"), 0o600))
	compare.Contains(t, "cordons that cannot be read", "the devices of the card are not known: "+cfg.StateDir+"/cordons.json", asks(t, cfg, true, idle))
}

// The DRA driver's pod doesn't have the device plugin directory. There, the holders are those that the driver knows.
func TestCanPullWithDRA(t *testing.T) {
	node := must.Value(simnode.New(t.TempDir()))(t)
	must.Succeed(t, node.Plug(cardA))
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot, cfg.Socket = node.Sys, node.Dev, filepath.Join(cmdtest.ShortDir(t), "daemon.sock")
	held := true
	var shown atomic.Pointer[control.State]
	state := control.State{
		API: control.DRA, KubeletDir: filepath.Join(t.TempDir(), "device-plugins"),
		Devices: []view.Row{{
			ID: "3b:00.0", PCIAddress: cardA.Address, Health: "unhealthy", Holder: []string{"default/job/main"}, HolderKnown: true, Held: &held,
			Resource: draname.Driver, Cordon: &cordon.Cordon{Device: "3b:00.0"},
		}},
	}
	answer := func() string {
		next := state
		shown.Store(&next)
		return asks(t, cfg, false, "/nonexistent")
	}
	served := make(chan struct{}, 1)
	log := eventtest.Log(t).WithOptions(zap.Hooks(func(zapcore.Entry) error { // control.served is the only line
		served <- struct{}{}
		return nil
	}))
	task.Run(t, func(ctx context.Context) error {
		return control.Run(ctx, cfg.Socket, control.Answers{State: func(context.Context) control.State { return *shown.Load() }}, log)
	})
	<-served
	got := answer()
	if want := "no\nin use by default/job/main: ask the pod's owner, or run: kubectl --namespace default delete pod job\n"; !strings.HasPrefix(got, want) || strings.Contains(got, "checkpoint") {
		t.Errorf("answer %q, want %q at its beginning, and nothing about a checkpoint", got, want)
	}
	state.API = control.DevicePlugin
	compare.Contains(t, "answer of the daemon", "the kubelet's checkpoint is not known: ", answer())
	state.API, state.HoldersError = control.DRA, "claims.json: unexpected end"
	compare.Contains(t, "answer", "claims.json: unexpected end: check --pod-resources-socket, the kubelet, and claims.json in the --plugin-dir of the driver\n", answer())
	if got := stateLine(state); !strings.HasPrefix(got, "DRA driver ") {
		t.Errorf("headline %q, want it to name the DRA driver", got)
	}
}

func TestCanPullCommand(t *testing.T) {
	node := must.Value(simnode.New(cmdtest.ShortDir(t)))(t)
	scan := []string{"--scan", "--sysfs-root", node.Sys, "--dev-root", node.Dev, "--state-dir", "",
		"--kubelet-dir", t.TempDir(), "--pod-resources-socket", filepath.Join(t.TempDir(), "none")}
	for _, test := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{append(scan, "3b:00.0"), 1, "unknown\nno card in slot 3b:00.0 of this node, which has ", ""},
		{append(scan, "3b:00.0", "-o", "json"), 1, "{\n  \"address\": \"0000:3b:00.0\",\n  \"answer\": \"unknown\",\n", ""},
		{[]string{"3b:00.0", "--socket", filepath.Join(t.TempDir(), "s")}, 1, "unknown\n", ""},
		{[]string{"3b:00.0-p1"}, 2, "", `found "3b:00.0-p1", want the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0`},
		{[]string{"3b:00.0", "-o", "yaml"}, 2, "", `--output: found "yaml", want json`},
		{[]string{"3b:00.0", "--sysfs-root", node.Sys}, 2, "", "--sysfs-root: found without --scan"},
		{nil, 2, "", "accepts 1 arg(s), received 0"},
	} {
		stdout, stderr, code := cmdtest.Output(t, append([]string{"can-pull"}, test.args...)...)
		if code != test.code || !strings.HasPrefix(stdout, test.out) || !strings.Contains(stderr, test.err) || (test.err == "") != (stderr == "") {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q, want %d, %q, %q", test.args, code, stdout, stderr, test.code, test.out, test.err)
		}
		if strings.HasPrefix(stdout, "{") {
			var answer canpull.Answer
			if err := json.Unmarshal([]byte(stdout), &answer); err != nil || len(answer.Reasons) == 0 {
				t.Errorf("%v: %s", err, fmt.Sprint(answer))
			}
		}
	}
}
