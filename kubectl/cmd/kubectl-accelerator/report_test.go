package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/redact"
	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const secret = "hunter2-s3cr3t"

// secretive is a cluster with a secret in environment variables, annotations, labels, names, log lines, settings and errors.
func secretive(t *testing.T) *simcluster.Cluster {
	optional := true
	pod := simcluster.NewPod("worker-3", secret, "fpga", "dra", func(_ context.Context, args []string, stdout, stderr io.Writer) int {
		device := `{"id":"3b:00.0","health":"unhealthy","reasons":["port-ap6","` + secret + `"],"resource":"` + secret + `/fpga","holder":["` + secret + `/` + secret + `/main"],"holderUids":["` + secret + `"],
			"cordon":{"device":"3b:00.0","by":"` + secret + `","why":"` + secret + `"},"attributes":{"` + secret + `":"` + secret + `"}}`
		switch strings.Join(args[1:], " ") {
		case "devices -o state":
			io.WriteString(stdout, `{"version":"0.3.0","api":"dra","holdersError":"`+secret+`: connection refused","`+secret+`":"`+secret+`","devices":[`+device+`],"cards":[{"card":"3b:00.0","healthChanges":31}]}`)
		case "devices --scan -o json":
			io.WriteString(stdout, "["+device+"]")
			io.WriteString(stderr, secret)
		default:
			return 2
		}
		return 0
	})
	pod.Name = secret
	pod.Annotations = map[string]string{"note": secret, secret: ""}
	pod.Labels[secret] = secret
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: secret}, {Name: "ACCELERATOR_X", Value: secret}}
	pod.Spec.Containers[0].Image = secret + "/plugin"
	pod.Spec.Volumes = []corev1.Volume{
		{Name: secret, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "fpga"}}}},
		{Name: "overrides", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: &optional}}},
	}
	pod.Status.ContainerStatuses[0].RestartCount = 2
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", Message: secret}
	pod.Logs = []string{
		"panic: " + secret + "\n",
		`{"level":"warn","time":"2026-11-22T18:36:28.487145183Z","message":"` + secret + `","event":"device.tombstone","device":"3b:00.0","holders":["` + secret + `/a/main"],"error":"` + secret + `","why":"` + secret + `","` + secret + `":"` + secret + "\"}\n" + secret + "\n",
	}
	c := simcluster.Start(t, pod)
	c.SetObject("/api/v1/namespaces/"+secret+"/configmaps/fpga", `{"metadata":{"name":"fpga","annotations":{"a":"`+secret+`"}},"data":{"config.yaml":"mode: af\nresourceName: `+secret+`/x\nstateDir: /`+secret+`\npassword: `+secret+`\nnodes: {`+secret+`: {}}\n","`+secret+`":"`+secret+`"}}`)
	c.SetObject("/api/v1/nodes/worker-3", `{"metadata":{"name":"worker-3","annotations":{"a":"`+secret+`"},"labels":{"`+secret+`":"`+secret+`"}},
		"status":{"allocatable":{"`+secret+`/fpga":"0","`+secret+`/gpu":"8"},"conditions":[{"type":"Ready","status":"True","message":"`+secret+`"}]}}`)
	c.SetObject("/apis/resource.k8s.io/v1/resourceslices", `{"items":[{"metadata":{"name":"`+secret+`"},"spec":{"driver":"accelerator.b-com.com","devices":[{"name":"pci-0000-3b-00-0","attributes":{"`+secret+`":{"string":"`+secret+`"}}}]}}]}`)
	return c
}

// files returns the parts of a report by name, without the directory that all are in.
func files(t *testing.T, name string) map[string]string {
	t.Helper()
	file := must.Value(os.Open(name))(t)
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	compressed := must.Value(gzip.NewReader(file))(t)
	parts := map[string]string{}
	for in := tar.NewReader(compressed); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return parts
		}
		text, readErr := io.ReadAll(in)
		if err != nil || readErr != nil {
			t.Fatal(err, readErr)
		}
		root, part, _ := strings.Cut(header.Name, "/")
		if !strings.HasPrefix(root, "accelerator-report-worker-3-") || header.Mode != 0o600 || header.Uname+header.Gname != "" {
			t.Errorf("header %+v", header)
		}
		parts[part] = string(text)
	}
}

// A report contains no secret, unless it is a full report.
func TestReport(t *testing.T) {
	c := secretive(t)
	name := filepath.Join(t.TempDir(), "report.tar.gz")
	out, errs, code := kubectl(t, c, "report", "worker-3", "--file", name, "--node-timeout", "1m")
	if code != 0 || out != name+"\n" || errs != "" {
		t.Fatalf("exit code %d, want 0 and the name:\n%s%s", code, out, errs)
	}
	parts := files(t, name)
	want := []string{"about.json", "node.json", "plugin-1/log-before-restart.txt", "plugin-1/log.txt", "plugin-1/pod.json", "plugin-1/scan.json", "plugin-1/settings-1.json", "plugin-1/settings-2.json", "plugin-1/state.json", "slices.json"}
	compare.Values(t, "parts", want, slices.Sorted(maps.Keys(parts)))
	for part, text := range parts {
		if strings.Contains(part+text, secret) {
			t.Errorf("%s has the secret:\n%s", part, text)
		}
	}
	for part, words := range map[string][]string{
		"plugin-1/log.txt":         {`"event":"device.tombstone","holders":["container-2"]`, "(1 lines removed)"},
		"plugin-1/pod.json":        {`"reason": "OOMKilled"`, `"restartCount": 2`},
		"plugin-1/state.json":      {`"healthChanges": 31`, `"port-ap6"`, `"resource": "resource-1"`, `"holdersError": "(removed) connection refused"`},
		"plugin-1/scan.json":       {`"id": "3b:00.0"`, `"container-1"`},
		"plugin-1/settings-1.json": {`"mode": "af"`, `"resourceName": "resource-2"`},
		"node.json":                {`"resource-1": "0"`, `"type": "Ready"`},
		"slices.json":              {`"name": "pci-0000-3b-00-0"`},
	} {
		for _, w := range words {
			compare.Contains(t, part, w, parts[part])
		}
	}
	before, _ := os.ReadFile(name)
	if _, errs, code := kubectl(t, c, "report", "worker-3", "--file", name); code != 1 || !strings.Contains(errs, "file exists") {
		t.Errorf("over an existing file: exit code %d, %s", code, errs)
	}
	if after, _ := os.ReadFile(name); !bytes.Equal(before, after) {
		t.Error("an existing file has changed")
	}
	link := filepath.Join(t.TempDir(), "link")
	must.Succeed(t, os.Symlink(link+"-target", link))
	if _, errs, code := kubectl(t, c, "report", "worker-3", "--file", link); code != 1 || !strings.Contains(errs, "file exists") {
		t.Errorf("at a symbolic link: exit code %d, %s", code, errs)
	}
	compare.Error(t, "target of the symbolic link", "", compare.ErrorOf(os.Lstat(link+"-target")))
	name += "-full"
	if out, errs, code := kubectl(t, c, "report", "worker-3", "--full", "--file", name); code != 0 {
		t.Errorf("full: exit code %d\n%s%s", code, out, errs)
	}
	all := files(t, name)
	for _, part := range []string{"node.json", "slices.json", secret + "_" + secret + "/pod.json", secret + "_" + secret + "/log.txt", secret + "_" + secret + "/" + secret + ".json", secret + "_" + secret + "/state.json"} {
		compare.Contains(t, "full: "+part, secret, all[part])
	}
}

// What cannot be read is listed as a problem, and the rest is written. The problems in the file contain no names.
func TestReportProblems(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name   string
		change func(c *simcluster.Cluster)
		errs   []string // on stderr
		in     string   // problems.txt
	}{
		{"rights", func(c *simcluster.Cluster) {
			for _, right := range []string{"get nodes", "get configmaps", "list resourceslices", "get pods/log", "create pods/exec"} {
				c.Deny(right)
			}
		}, []string{`node.json: you don't have permission: pods "worker-3" is forbidden: User "jane" cannot get resource "nodes"`, "8 parts could not be read"},
			`plugin-1/state.json: you don't have permission, cannot create resource "pods/exec"
plugin-1/scan.json: you don't have permission, cannot create resource "pods/exec"
plugin-1/settings-1.json: you don't have permission, cannot get resource "configmaps"
plugin-1/settings-2.json: you don't have permission, cannot get resource "configmaps"
plugin-1/log-before-restart.txt: you don't have permission, cannot get resource "pods/log"
plugin-1/log.txt: you don't have permission, cannot get resource "pods/log"
node.json: you don't have permission, cannot get resource "nodes"
slices.json: you don't have permission, cannot list resource "resourceslices"
`},
		{"a bad node", func(c *simcluster.Cluster) {
			pod := simcluster.NewPod("worker-3", "kube-system", "other", "devicePlugin", func(_ context.Context, args []string, stdout, stderr io.Writer) int {
				if args[2] == "--scan" {
					io.WriteString(stderr, secret)
					return 1
				}
				io.WriteString(stdout, secret+"\x1b[2J")
				return 0
			})
			pod.CreationTimestamp.Time = pod.CreationTimestamp.AddDate(2030, 0, 0)
			c.Set(pod)
			long := simcluster.NewPod("worker-3", "kube-system", "long", "devicePlugin", nil)
			long.Status.ContainerStatuses = nil
			long.Logs = []string{strings.Repeat("x", 16<<20+1)}
			c.Set(long)
			many := simcluster.NewPod("worker-3", "kube-system", "many", "devicePlugin", nil) // its kubelet sends more than it was asked for
			many.Status.ContainerStatuses = nil
			many.Logs = []string{strings.Repeat("\n", 20_001)}
			c.Set(many)
			c.SetObject("/api/v1/namespaces/"+secret+"/configmaps/fpga", `{"data":{"config.yaml":"`+secret+`: ["}}`)
			c.SetObject("/api/v1/nodes/worker-3", secret)
		}, []string{"plugin-1/state.json: its text cannot be parsed", "plugin-1/scan.json: " + secret, "plugin-1/log.txt: ", "the log is larger than 16 MiB"}, `plugin-1/state.json: cannot be parsed
plugin-1/scan.json: (removed)
plugin-1/log.txt: not found, previous terminated container
plugin-3/state.json: its container does not run
plugin-3/scan.json: its container does not run
plugin-3/log.txt: is larger than
plugin-4/state.json: its container does not run
plugin-4/scan.json: its container does not run
plugin-4/log.txt: is larger than
node.json: cannot be parsed
`},
		{"no pod", func(c *simcluster.Cluster) { c.Delete(secret, secret) }, []string{"pods: found no pod of the plugin on this node"}, "pods: found no pod of the plugin on this node\n"},
	} {
		c := secretive(t)
		test.change(c)
		name := filepath.Join(dir, test.name)
		out, errs, code := kubectl(t, c, "report", "worker-3", "--file", name)
		for _, want := range test.errs {
			if code != 1 || !strings.Contains(errs, want) || strings.Contains(errs, "\x1b") {
				t.Errorf("%s: exit code %d, want 1 and %q:\n%s%s", test.name, code, want, out, errs)
			}
		}
		parts := files(t, name)
		compare.Values(t, test.name+": problems.txt", test.in, parts["problems.txt"])
		for part, text := range parts {
			if strings.Contains(part+text, secret) {
				t.Errorf("%s: %s has the secret:\n%s", test.name, part, text)
			}
		}
	}
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{}, 2, "found 0 arguments, want NODE"},
		{[]string{"../x"}, 2, `NODE: found "../x", want the name of a node`},
		{[]string{"worker-9", "--file", filepath.Join(dir, "absent")}, 1, "worker-9: found no pod of the plugin on this node, and the node cannot be read: "},
		{[]string{"worker-3", "--file", filepath.Join(dir, "none", "x")}, 1, "no such file or directory"},
	} {
		if _, errs, code := kubectl(t, secretive(t), append([]string{"report"}, test.args...)...); code != test.code || !strings.Contains(errs, test.says) {
			t.Errorf("%v: exit code %d, want %d and %q: %s", test.args, code, test.code, test.says, errs)
		}
	}
	c := secretive(t)
	c.Deny("list pods")
	if _, errs, code := kubectl(t, c, "report", "worker-3", "--file", filepath.Join(dir, "denied")); code != 1 || !strings.Contains(errs, "you don't have permission") {
		t.Errorf("without the right to list pods: exit code %d: %s", code, errs)
	}
	compare.Error(t, "file without the right to list pods", "", compare.ErrorOf(os.Stat(filepath.Join(dir, "denied"))))
}

// Once the disk is full, nothing more is read, and the error is reported once.
func TestReportDiskFull(t *testing.T) {
	c := secretive(t)
	f := must.Value(fleet.New(c.Config(), "", ""))(t)
	pods := must.Value(f.Pods(t.Context(), "worker-3"))(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must.Succeed(t, err)
	defer full.Close()
	b := &bundle{f: f, node: "worker-3", redactor: redact.New("worker-3"), tell: func(string) {}, tar: tar.NewWriter(full)}
	b.parts(t.Context(), pods)
	if !errors.Is(b.err, syscall.ENOSPC) || strings.Count(b.err.Error(), "no space") != 1 || c.Asked() != 0 || len(b.problems) != 0 {
		t.Errorf("error %v, %d commands and %d problems, want one error and nothing else", b.err, c.Asked(), len(b.problems))
	}
}

// The parts are stored below the directory of the report, whatever the names of volumes are.
func TestReportNames(t *testing.T) {
	pod := simcluster.NewPod("worker-3", "lab", "fpga", "devicePlugin", nil)
	pod.Status.ContainerStatuses = nil
	for _, name := range []string{"../../../../etc/passwd", `..\..\x`, ".."} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "fpga"}}}})
	}
	c := simcluster.Start(t, pod)
	c.SetObject("/api/v1/namespaces/lab/configmaps/fpga", "{}")
	name := filepath.Join(t.TempDir(), "report")
	kubectl(t, c, "report", "worker-3", "--full", "--file", name)
	want := []string{"about.json", "lab_fpga-worker-3/...json", "lab_fpga-worker-3/.._.._.._.._etc_passwd.json", "lab_fpga-worker-3/.._.._x.json", "lab_fpga-worker-3/pod.json", "problems.txt"}
	compare.Values(t, "parts", want, slices.Sorted(maps.Keys(files(t, name))))
}

// Ctrl-C leaves no file.
func TestReportInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := simcluster.Start(t, simcluster.NewPod("worker-3", "kube-system", "fpga", "dra", func(ctx context.Context, _ []string, _, _ io.Writer) int {
		cancel()
		<-ctx.Done()
		return -1
	}))
	name := filepath.Join(t.TempDir(), "report")
	var out, errs strings.Builder
	code := run(ctx, []string{"--kubeconfig", c.Kubeconfig(t), "report", "worker-3", "--file", name, "--node-timeout", "1h"}, &out, &errs)
	if _, err := os.Stat(name); code != 1 || errs.String() != "kubectl accelerator: interrupted\n" || err == nil {
		t.Errorf("exit code %d, %q, want that it was interrupted, and no file", code, errs.String())
	}
}

// Of what a real daemon prints about its devices, only texts that a person has written are removed.
func TestReportOfADaemon(t *testing.T) {
	n := startNode(t, "two-ports", "pac-d5005")
	log := must.Value(os.ReadFile(n.log))(t)
	pod := simcluster.NewPod("worker-3", "kube-system", "fpga", "devicePlugin", n.run)
	pod.Logs = []string{string(log)}
	c := simcluster.Start(t, pod)
	c.SetObject("/api/v1/nodes/worker-3", `{}`)
	name := filepath.Join(t.TempDir(), "report")
	if out, errs, code := kubectl(t, c, "report", "worker-3", "--file", name); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	parts := files(t, name)
	for part, args := range map[string][]string{"plugin-1/state.json": {"devices", "-o", "state"}, "plugin-1/scan.json": {"devices", "--scan", "-o", "json"}} {
		var printed, kept any
		text, err := n.command(t.Context(), args...).Output()
		if err = errors.Join(err, json.Unmarshal(text, &printed), json.Unmarshal([]byte(parts[part]), &kept)); err != nil {
			t.Fatal(err)
		}
		devices := func(v any) any {
			if all, ok := v.(map[string]any); ok {
				return all["devices"]
			}
			return v
		}
		if diff := cmp.Diff(devices(printed), devices(kept)); diff != "" {
			t.Errorf("%s: devices (-printed +kept):\n%s", part, diff)
		}
	}
	if text := parts["plugin-1/log.txt"]; strings.Contains(text, "lines removed") || !strings.Contains(text, `"event":"daemon.started"`) {
		t.Errorf("log:\n%s", text)
	}
}
