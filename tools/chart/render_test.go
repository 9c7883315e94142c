package chart_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

// sets runs a subtest for each set of values, with its rendered manifests.
func (c chart) sets(t *testing.T, run func(t *testing.T, values, manifests string)) {
	files, err := filepath.Glob(c.data + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s/*.yaml: found no set of values, error %v", c.data, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			values := read(t, file)
			run(t, values, c.rendered(t, values))
		})
	}
}

func TestLint(t *testing.T) {
	charts(t, func(t *testing.T, c chart) {
		c.sets(t, func(t *testing.T, _, _ string) {
			values := filepath.Join(c.data, filepath.Base(t.Name())+".yaml")
			if out, err := helm("lint", "--strict", "--quiet", c.dir, "--values", values); err != nil || out != "" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	})
}

// With the device plugin, the chart has no object of Dynamic Resource Allocation. The golden files of default and dra
// contain only the objects of helm test, because TestManifests compares the other ones.
func TestRender(t *testing.T) {
	charts(t, func(t *testing.T, c chart) {
		c.sets(t, func(t *testing.T, values, manifests string) {
			objects(t, manifests)
			compare.Equal(t, "objects of Dynamic Resource Allocation", isDRA(values), strings.Contains(manifests, "resource.k8s.io"))
			if name := filepath.Base(t.Name()); c == plugin && (name == "default" || name == "dra") {
				golden.Compare(t, filepath.Join(c.data, name+".golden"), without(t, manifests[strings.Index(manifests, "# Source: accelerator-device-plugin/templates/tests/"):]))
				return
			}
			c.golden(t, values, ".golden", func(set string) string { return without(t, c.rendered(t, read(t, set+".yaml"))) })
		})
	})
}

// TestNotes compares the text that helm prints after an installation.
func TestNotes(t *testing.T) {
	charts(t, func(t *testing.T, c chart) {
		c.sets(t, func(t *testing.T, values, _ string) {
			c.golden(t, values, ".notes", func(set string) string {
				out := must.Value(helm("install", release, c.dir, "--namespace", space, "--values", set+".yaml", "--dry-run=client"))(t)
				_, notes, ok := strings.Cut(out, "\nNOTES:\n")
				if !ok {
					t.Fatalf("no notes:\n%s", out)
				}
				return notes
			})
		})
	})
}

// golden compares what output returns for the subtest's set of values with a golden file. For a set that changes little,
// the file contains the difference from default, or from dra.
func (c chart) golden(t *testing.T, values, suffix string, output func(set string) string) {
	t.Helper()
	name, base := filepath.Base(t.Name()), "default"
	got := output(filepath.Join(c.data, name))
	if isDRA(values) {
		base = "dra"
	}
	if !slices.Contains([]string{"default", "least", "everything", "dra", "dra-everything"}, name) {
		got, suffix = difference(output(filepath.Join(c.data, base)), got), suffix+".diff"
	}
	golden.Compare(t, filepath.Join(c.data, name+suffix), got)
}

// The manifests for users without Helm are the rendered chart, for each API.
func TestManifests(t *testing.T) {
	for api, file := range map[string]string{"devicePlugin": "accelerator-device-plugin.yaml", "dra": "accelerator-dra-driver.yaml"} {
		out := must.Value(helm("template", "accelerator-device-plugin", plugin.dir, "--namespace", "kube-system", "--skip-tests", "--set", "api="+api))(t)
		objects(t, out)
		golden.Compare(t, "../../deploy/manifests/"+file, "# Rendered from deploy/helm by `make manifests`. Do not edit.\n"+out)
	}
}

// The API server accepts the examples.
func TestExample(t *testing.T) {
	only[*corev1.Pod](t, objects(t, read(t, "../../deploy/examples/pod.yaml")))
	all := objects(t, read(t, "../../deploy/examples/claim.yaml"))
	claimed(t, only[*resourcev1.ResourceClaimTemplate](t, all), only[*corev1.Pod](t, all).Spec, "accelerator.b-com.com")
}

// The chart accepts the values in docs/which-way.md, and the API server the pods and the template there. (A test of the
// operator decodes the AcceleratorFunction.)
func TestWhichWay(t *testing.T) {
	found := 0
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "../../docs/which-way.md"), -1) {
		switch example := m[1]; {
		case strings.HasPrefix(example, "apiVersion: fpga.intel.com/"):
		case strings.HasPrefix(example, "apiVersion:"):
			objects(t, example)
			found++
		default:
			objects(t, plugin.rendered(t, example))
			found++
		}
	}
	if found != 11 {
		t.Errorf("docs/which-way.md: found %d examples, want 11", found)
	}
}

// With all sets of values, the pod has only the rights that it needs.
func TestLeastPrivilege(t *testing.T) {
	plugin.sets(t, func(t *testing.T, values, manifests string) {
		all := objects(t, manifests)
		pod := only[*appsv1.DaemonSet](t, all).Spec.Template.Spec
		if pod.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Error("the pod uses the network, PID or IPC namespace of the host")
		}
		compare.Values(t, "enableServiceLinks, hostUsers", []*bool{new(false), new(true)}, []*bool{pod.EnableServiceLinks, pod.HostUsers})
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			unprivileged(t, c)
		}
		init := 0
		if strings.Contains(values, "programming:") {
			init = 1
		}
		if len(pod.InitContainers) != init || len(pod.Containers) != 1 {
			t.Fatalf("%d init containers and %d containers, want %d and 1", len(pod.InitContainers), len(pod.Containers), init)
		}
		for _, c := range pod.InitContainers {
			compare.Values(t, "mounts of "+c.Name, []corev1.VolumeMount{{Name: "programming", MountPath: "/host/opt/fpga/bin"}}, c.VolumeMounts)
		}
		compare.Equal(t, "seccomp profile", corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
		writable(t, pod, pod.Containers[0])
		needed := strings.Contains(values, "nodeAnnotation: true") || strings.Contains(values, "events: true") || strings.Contains(values, "nodeCondition: {enabled: true") || isDRA(values)
		compare.Equal(t, "automountServiceAccountToken", needed, *pod.AutomountServiceAccountToken)
	})
}

// unprivileged checks that a container has no privileges and no capabilities.
func unprivileged(t *testing.T, c corev1.Container) {
	t.Helper()
	got := c.SecurityContext.DeepCopy()
	got.SELinuxOptions = nil
	compare.Values(t, c.Name+": security context", &corev1.SecurityContext{
		Privileged: new(false), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}, got)
}

// writable checks which mounts the container can write to.
func writable(t *testing.T, pod corev1.PodSpec, c corev1.Container) {
	var got []string
	mounted := make(map[string]bool)
	for _, m := range c.VolumeMounts {
		mounted[m.Name] = true
		if !m.ReadOnly {
			got = append(got, m.Name)
		}
		if m.MountPath == "/dev" || strings.HasPrefix(m.MountPath, "/dev/") {
			t.Errorf("mount over %s: the runtime cannot start the container", m.MountPath)
		}
	}
	want := []string{"run"}
	if slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "state" }) {
		want = append(want, "state")
	}
	if slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "registry" }) {
		want = append(want, "plugin", "registry")
	} else {
		want = append(want, "device-plugins")
	}
	for _, v := range pod.Volumes {
		if mounted[v.Name] == (v.Name == "programming") { // the init container mounts programming
			t.Errorf("volume %s: mounted by the daemon: %t", v.Name, mounted[v.Name])
		}
		if v.Name == "cdi" {
			want = append(want, "cdi")
		}
	}
	compare.Values(t, "writable mounts", want, got)
}

// The daemon accepts the settings of the pod, and they equal the values.
func TestDaemonAcceptsConfig(t *testing.T) {
	hookArgs := []string{"--store=/srv/fpga", "--sysfs-root=/var/lib/simulated/sys", "--dev-root=/var/lib/simulated/dev", "--timeout=60s"}
	plugin.sets(t, func(t *testing.T, _, manifests string) {
		got := daemon(t, manifests)
		want := config.Defaults()
		want.File, want.CgroupRoot, want.DevRoot, want.HostSysfsRoot, want.HostDevRoot, want.HTTPAddress = got.File, "/host/cgroup", "/host/dev", "/sys", "/dev", ":9480"
		want.Overrides, want.NodeName, want.NodeAnnotation = got.Overrides, "worker-3", false
		switch filepath.Base(t.Name()) {
		case "pool":
			want.Mode, want.AccelNbUnits, want.ResourceName = "pool", 8, "example.com/unit"
		case "af":
			want.Mode, want.SysfsRoot, want.HostSysfsRoot, want.HostDevRoot = "af", "/host/sys", "/var/lib/accel-sim/sys", "/var/lib/accel-sim/dev"
		case "least":
			want.HTTPAddress, want.StateDir = "", ""
		case "programming":
			want.Mode, want.CDIDir, want.SysfsRoot, want.HostSysfsRoot, want.HostDevRoot = "region", "/var/run/cdi", "/host/sys", "/var/lib/simulated/sys", "/var/lib/simulated/dev"
			want.ProgrammingHook, want.ProgrammingHookArgs = "/opt/fpga/bin/accelerator-fpga", hookArgs
		case "events":
			want.Events = true
		case "condition":
			want.NodeConditionType = "example.com/FPGAs"
		case "dra-programming":
			want.CDIDir, want.SysfsRoot, want.HostSysfsRoot, want.HostDevRoot = "/var/run/cdi", "/host/sys", "/var/lib/simulated/sys", "/var/lib/simulated/dev"
			want.ProgrammingHook, want.ProgrammingHookArgs = "/opt/fpga/bin/accelerator-fpga", hookArgs
		case "dra":
			want.CDIDir = "/var/run/cdi"
		case "dra-everything":
			want.NodeConditionType = conditionType
			want.Families = []string{"dfl", "vfio", "xrt", "aws"}
			want.Mode, want.CDIDir, want.Events, want.RecoveryHold, want.StateDir = "af", "/etc/cdi", true, 20e9, ""
			want.SysfsRoot, want.HostSysfsRoot, want.HostDevRoot = "/host/sys", "/var/lib/simulated/sys", "/var/lib/simulated/dev"
		case "everything":
			want.NodeAnnotation, want.Events, want.NodeConditionType = true, true, conditionType
			want.Families, want.VFIOCdev, want.XRTManagement = []string{"dfl", "vfio", "xrt", "aws"}, true, true
			want.Mode, want.CDIDir, want.HTTPAddress, want.FlapLimit, want.ResyncInterval = "af", "/var/run/cdi", ":8080", 0, 30e9
			want.Exclude = map[string]bool{"3b:00.0": true, "0001:5e:00.0-p1": true, "10:00.0": true}
			want.Severity = map[string]string{"port-mmio-timeout": "fatal", "power-throttled=1": "ignored"}
			want.SysfsRoot, want.HostSysfsRoot, want.HostDevRoot = "/host/sys", "/var/lib/simulated/sys", "/var/lib/simulated/dev"
			want.Resources = got.Resources
			rules := "[example.com/nlb for pciVendor=8086 pciDevice=0010 afuId=d8424dc4a4a3c413f89e433683f9040b " +
				"example.com/vf for pciVendor=8086 pciDevice=bccf subsystem=8086:17d4 physicalFunction=3b:00.0 virtualFunction=0 family=vfio " +
				"example.com/u250 for vbnv=xilinx:u250:xdma:201830.2 example.com/f2 for family=aws]"
			compare.Equal(t, "rules", rules, fmt.Sprint(got.Resources))
		}
		compare.Values(t, "config", want, got)
	})
}

// daemon returns the configuration of the daemon in the pod.
func daemon(t *testing.T, manifests string) config.Config {
	all := objects(t, manifests)
	c := only[*appsv1.DaemonSet](t, all).Spec.Template.Spec.Containers[0]
	environment := make(map[string]string)
	for _, e := range c.Env {
		environment[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "spec.nodeName" {
			environment[e.Name] = "worker-3"
		}
	}
	mounted := configMap(t, all, "config.yaml")
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, mounted.Data["config.yaml"])
	compare.Equal(t, "ACCELERATOR_CONFIG", "/etc/accelerator-device-plugin/config.yaml", environment["ACCELERATOR_CONFIG"])
	environment["ACCELERATOR_CONFIG"] = file
	overrides(t, all, environment["ACCELERATOR_OVERRIDES"])
	loader := newLoader()
	must.Succeed(t, loader.Load(func(name string) (string, bool) { v, ok := environment[name]; return v, ok }))
	mounts := make(map[string]string)
	for _, m := range c.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	compare.Equal(t, "mount run", filepath.Dir(loader.Config.Socket), mounts["run"])
	compare.Equal(t, "mount state", loader.Config.StateDir, mounts["state"])
	return loader.Config
}

// overrides checks that the file of the overrides is in a directory with an optional ConfigMap,
// which Helm does not create.
func overrides(t *testing.T, all []runtime.Object, file string) {
	ds := only[*appsv1.DaemonSet](t, all)
	pod := ds.Spec.Template.Spec
	name := strings.TrimSuffix(ds.Name, "-dra") + "-overrides" // the same for both APIs
	want := corev1.VolumeMount{Name: "overrides", MountPath: filepath.Dir(file), ReadOnly: true}
	for _, got := range pod.Containers[0].VolumeMounts {
		if diff := cmp.Diff(want, got); got.Name == want.Name && diff != "" {
			t.Errorf("mount of the overrides %s (-want +got):\n%s", file, diff)
		}
	}
	for _, v := range pod.Volumes {
		if v.Name != "overrides" {
			continue
		}
		if m := v.ConfigMap; m == nil || m.Optional == nil || !*m.Optional || m.Name != name {
			t.Errorf("volume of the overrides: %+v", v)
		}
	}
	if slices.ContainsFunc(every[*corev1.ConfigMap](all), func(m *corev1.ConfigMap) bool { return m.Name == name }) {
		t.Error("Helm creates the ConfigMap of the overrides, want none")
	}
}

// newLoader returns a loader with the daemon's families and the health rows of one of them.
func newLoader() *config.Loader {
	v := config.Vocabulary{Families: []string{"dfl", "opae", "vfio", "xrt", "aws"}}
	for _, row := range dfl.Family(port.PerPort).Rows() {
		v.Rows = append(v.Rows, row.Name)
	}
	return config.New(v)
}

// A path can contain characters with a meaning in YAML.
func TestOddPaths(t *testing.T) {
	const values = "simulatedNode: '/a,b}'\nkubelet: {rootDir: '/c,d}', devicePluginDir: '/e,f}'}\nconfig: {cdiDir: '/g,h}'}\nstateDir: '/i,j}'\n"
	for api, want := range map[string][]string{
		"devicePlugin": {"/i,j}", "/a,b}/dev", "/sys/fs/cgroup", "/a,b}/sys", "/e,f}", "/c,d}/pod-resources", "/g,h}"},
		"dra":          {"/i,j}", "/a,b}/dev", "/sys/fs/cgroup", "/a,b}/sys", "/c,d}/plugins/" + driver, "/c,d}/plugins_registry", "/e,f}", "/c,d}/pod-resources", "/g,h}"},
	} {
		var got []string
		for _, v := range only[*appsv1.DaemonSet](t, objects(t, plugin.rendered(t, values+"api: "+api))).Spec.Template.Spec.Volumes {
			if v.HostPath != nil {
				got = append(got, v.HostPath.Path)
			}
		}
		compare.Values(t, api+": paths of the host", want, got)
	}
}

// helm test requests the resource of the mode, or fails with the reason. Its Job has a deadline, at
// which its pod is deleted.
func TestHelmTest(t *testing.T) {
	const pair = ", test: {interface: 69528DB6-eb31-577a-8c36-68f9faa081f6, afu: d8424dc4a4a3c413f89e433683f9040b}"
	for _, tt := range []struct {
		values   string
		resource string   // "": the test fails
		because  []string // in the reason
		deadline int64    // in seconds
	}{
		{"{}", "b-com.com/accelerator", nil, 50},
		{"{config: {mode: pool, resourceName: example.com/unit}}", "example.com/unit", nil, 50},
		{"{config: {mode: af}}", "", []string{"test.resource: found none", "in af mode"}, 50},
		{"{config: {mode: regiondevel}}", "", []string{"test.resource: found none", "in regiondevel mode"}, 50},
		{"{config: {families: [vfio]}}", "", []string{"test.resource: found none", "devices come from rules"}, 50},
		{"{config: {families: [vfio], mode: pool}}", "b-com.com/accelerator", nil, 50},
		{"{config: {families: [dfl, vfio]}}", "b-com.com/accelerator", nil, 50},
		{"{config: {families: [xrt, vfio]}}", "", []string{"test.resource: found none", "devices come from rules and the cards' shells"}, 50},
		{"{config: {families: [xrt, aws]}}", "b-com.com/accelerator", nil, 50},
		{"{nodeAnnotation: true}", "", []string{"test.resource: found none", "with nodeAnnotation"}, 50},
		{"{config: {mode: region}, programming: {enabled: true}}", "", []string{"test.interface and test.afu"}, 50},
		{"{config: {mode: af}, test: {resource: example.com/nlb}}", "example.com/nlb", nil, 50},
		{"{config: {mode: region}, programming: {enabled: true}" + pair + "}", "fpga.intel.com/region-69528db6eb31577a8c3668f9faa081f6", nil, 170},
	} {
		job := only[*batchv1.Job](t, objects(t, plugin.rendered(t, tt.values)))
		spec := job.Spec.Template.Spec
		var limits []string
		for name, n := range spec.Containers[0].Resources.Limits {
			limits = append(limits, string(name)+": "+n.String())
		}
		want, args := []string{tt.resource + ": 1"}, spec.Containers[0].Args
		if tt.resource == "" {
			want = nil
		}
		compare.Values(t, tt.values+": limits", want, limits)
		if runs := args[0] == "version"; runs != (tt.resource != "") || !runs && (args[0] != "refuse" || len(args) != 2) {
			t.Errorf("%s: runs %q", tt.values, args)
		}
		for _, words := range tt.because {
			compare.Contains(t, tt.values+": reason", words, args[1])
		}
		if *job.Spec.ActiveDeadlineSeconds != tt.deadline || *job.Spec.BackoffLimit != 0 || *job.Spec.TTLSecondsAfterFinished == 0 ||
			job.Annotations["helm.sh/hook"] != "test" || spec.RestartPolicy != corev1.RestartPolicyNever || *spec.TerminationGracePeriodSeconds != 0 {
			t.Errorf("%s: %+v", tt.values, job.Spec)
		}
	}
}

// Where the annotation of a node can give pods the FME's node, the hook programs every time, unless the value says
// otherwise.
func TestHookAlways(t *testing.T) {
	for values, want := range map[string]bool{
		"": false, "nodeAnnotation: true": true,
		"programming: {always: true}": true, "nodeAnnotation: true\nprogramming: {always: false}": false,
	} {
		manifests := plugin.rendered(t, values, "--set", "config.mode=region", "--set", "programming.enabled=true", "--set", "config.programmingHookArgs={--timeout=60s}")
		compare.Equal(t, values+": --always", want, strings.Contains(manifests, "\n    - --always\n    - --timeout=60s\n"))
	}
}

// The hook refuses the cards that programming.maxTemperature names. YAML reads off without quotes as false.
func TestHookMaxTemperature(t *testing.T) {
	for value, want := range map[string]string{"board": "", "null": "", "85": "85", "150": "150", "off": "off", `"off"`: "off"} {
		for _, api := range []string{"devicePlugin", "dra"} {
			manifests := plugin.rendered(t, "programming: {maxTemperature: "+value+"}", "--set", "config.mode=region", "--set", "programming.enabled=true", "--set", "api="+api)
			_, got, _ := strings.Cut(manifests, "\n    - --max-temperature=")
			got, _, _ = strings.Cut(got, "\n")
			compare.Equal(t, api+", "+value+": --max-temperature", want, got)
		}
	}
}
