package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// rows contains some rows of a health table. One has a value, and one allows any value.
var rows = []string{"afu-dead", "link-speed", "port-mmio-timeout", "power-throttled=1", "power-throttled=2", "power-throttled=6"}

var vocabulary = config.Vocabulary{Families: []string{"dfl", "opae", "vfio"}, Rows: rows}

// load parses flags, then variables, then a file with this content.
func load(t *testing.T, flags []string, variables map[string]string, yaml string) (config.Config, error) {
	t.Helper()
	if yaml != "" {
		flags = append(flags, "--config", write(t, yaml))
	}
	l := config.New(vocabulary)
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	l.AddFlags(fs)
	if err := fs.Parse(flags); err != nil {
		return config.Config{}, err
	}
	err := l.Load(func(name string) (string, bool) { v, ok := variables[name]; return v, ok })
	cfg := l.Config
	cfg.File = ""
	return cfg, err
}

func TestPrecedence(t *testing.T) {
	flag := []string{"--resync-interval", "1s"}
	variable := map[string]string{"ACCELERATOR_RESYNC_INTERVAL": "2s"}
	file := "resyncInterval: 3s\n"
	for _, test := range []struct {
		name      string
		flags     []string
		variables map[string]string
		yaml      string
		want      time.Duration
	}{
		{"nothing", nil, nil, "", time.Minute},
		{"file", nil, nil, file, 3 * time.Second},
		{"variable over file", nil, variable, file, 2 * time.Second},
		{"flag over both", flag, variable, file, time.Second},
		{"flag over file", flag, nil, file, time.Second},
	} {
		cfg := must.Value(load(t, test.flags, test.variables, test.yaml))(t)
		compare.Equal(t, test.name+": resync interval", test.want, cfg.ResyncInterval)
	}
}

// Every setting can come from any of the three sources, with the same result.
func TestSettingsFromEachSource(t *testing.T) {
	want := config.Config{
		SysfsRoot: "/a", CgroupRoot: "/j", HostSysfsRoot: "/i", DevRoot: "/b", HostDevRoot: "/c", Families: []string{"opae", "vfio"}, VFIOCdev: true, XRTManagement: true, Mode: "pool", ResourceName: "example.com/fpga", ResourceNamespace: "fpga.example.com", AccelNbUnits: 7,
		AllocationPolicy: "spread", CDIDir: "/f", ProgrammingHook: "/h", ProgrammingHookArgs: []string{"--store=/s", "--timeout", "80s"}, NodeName: "node-1.example.com", NodeAnnotation: false, Events: true, Kubeconfig: "/g",
		KubeletDir: "/d", PodResourcesSocket: "/e", HTTPAddress: "[::1]:80", Socket: "/s", StateDir: "/v", HolderMetrics: false,
		ResyncInterval: 50 * time.Millisecond, HealthInterval: 2 * time.Second, RecoveryHold: 0, TombstoneGrace: 4 * time.Second,
		ReprogramTimeout: 5 * time.Second, FlapLimit: 0, FlapWindow: 6 * time.Second, Sensors: "all", SensorInterval: 0, LogLevel: "debug", LogFormat: "console",
	}
	settings := []struct{ flag, variable, key, value string }{
		{"sysfs-root", "ACCELERATOR_SYSFS_ROOT", "sysfsRoot", "/a"},
		{"cgroup-root", "ACCELERATOR_CGROUP_ROOT", "cgroupRoot", "/j"},
		{"dev-root", "ACCELERATOR_DEV_ROOT", "devRoot", "/b"},
		{"host-dev-root", "ACCELERATOR_HOST_DEV_ROOT", "hostDevRoot", "/c"},
		{"host-sysfs-root", "ACCELERATOR_HOST_SYSFS_ROOT", "hostSysfsRoot", "/i"},
		{"families", "ACCELERATOR_FAMILIES", "families", "opae,vfio"},
		{"vfio-cdev", "ACCELERATOR_VFIO_CDEV", "vfioCdev", "true"},
		{"xrt-management", "ACCELERATOR_XRT_MANAGEMENT", "xrtManagement", "true"},
		{"mode", "ACCELERATOR_MODE", "mode", "pool"},
		{"resource-name", "ACCELERATOR_RESOURCE_NAME", "resourceName", "example.com/fpga"},
		{"resource-namespace", "ACCELERATOR_RESOURCE_NAMESPACE", "resourceNamespace", "fpga.example.com"},
		{"allocation-policy", "ACCELERATOR_ALLOCATION_POLICY", "allocationPolicy", "spread"},
		{"cdi-dir", "ACCELERATOR_CDI_DIR", "cdiDir", "/f"},
		{"programming-hook", "ACCELERATOR_PROGRAMMING_HOOK", "programmingHook", "/h"},
		{"programming-hook-arg", "ACCELERATOR_PROGRAMMING_HOOK_ARG", "programmingHookArgs", "--store=/s --timeout 80s"},
		{"node-name", "ACCELERATOR_NODE_NAME", "nodeName", "node-1.example.com"},
		{"node-annotation", "ACCELERATOR_NODE_ANNOTATION", "nodeAnnotation", "false"},
		{"events", "ACCELERATOR_EVENTS", "events", "true"},
		{"kubeconfig", "ACCELERATOR_KUBECONFIG", "kubeconfig", "/g"},
		{"accel-nbunits", "ACCELERATOR_ACCEL_NBUNITS", "accelNbunits", "7"},
		{"kubelet-dir", "ACCELERATOR_KUBELET_DIR", "kubeletDir", "/d"},
		{"pod-resources-socket", "ACCELERATOR_POD_RESOURCES_SOCKET", "podResourcesSocket", "/e"},
		{"http-address", "ACCELERATOR_HTTP_ADDRESS", "httpAddress", "[::1]:80"},
		{"socket", "ACCELERATOR_SOCKET", "socket", "/s"},
		{"state-dir", "ACCELERATOR_STATE_DIR", "stateDir", "/v"},
		{"holder-metrics", "ACCELERATOR_HOLDER_METRICS", "holderMetrics", "false"},
		{"resync-interval", "ACCELERATOR_RESYNC_INTERVAL", "resyncInterval", "50ms"},
		{"health-interval", "ACCELERATOR_HEALTH_INTERVAL", "healthInterval", "2s"},
		{"recovery-hold", "ACCELERATOR_RECOVERY_HOLD", "recoveryHold", "0s"},
		{"tombstone-grace", "ACCELERATOR_TOMBSTONE_GRACE", "tombstoneGrace", "4s"},
		{"reprogram-timeout", "ACCELERATOR_REPROGRAM_TIMEOUT", "reprogramTimeout", "5s"},
		{"flap-limit", "ACCELERATOR_FLAP_LIMIT", "flapLimit", "0"},
		{"flap-window", "ACCELERATOR_FLAP_WINDOW", "flapWindow", "6s"},
		{"sensors", "ACCELERATOR_SENSORS", "sensors", "all"},
		{"sensor-interval", "ACCELERATOR_SENSOR_INTERVAL", "sensorInterval", "0s"},
		{"log-level", "ACCELERATOR_LOG_LEVEL", "logLevel", "debug"},
		{"log-format", "ACCELERATOR_LOG_FORMAT", "logFormat", "console"},
	}
	var flags []string
	variables := map[string]string{"ACCELERATOR_PORT": "tcp://10.0.0.1:80"} // set by Kubernetes itself, so ignored
	var yaml strings.Builder
	for _, s := range settings {
		flags = append(flags, "--"+s.flag+"="+s.value)
		variables[s.variable] = s.value
		yaml.WriteString(s.key + ": \"" + s.value + "\"\n")
	}
	for _, test := range []struct {
		name      string
		flags     []string
		variables map[string]string
		yaml      string
	}{
		{"flags", flags, nil, ""},
		{"variables", nil, variables, ""},
		{"file", nil, nil, yaml.String()},
	} {
		compare.Values(t, test.name+": config", want, must.Value(load(t, test.flags, test.variables, test.yaml))(t))
	}
}

// TestEdges covers empty values, the longest ones, and unusual but valid ones. Relative paths are relative to the
// working directory at startup.
func TestEdges(t *testing.T) {
	t.Chdir("/tmp")
	for _, test := range []struct {
		name      string
		flags     []string
		variables map[string]string
		yaml      string
		adjust    func(*config.Config) // applied to the defaults
	}{
		{"relative paths", []string{
			"--sysfs-root=sys", "--dev-root=./dev/", "--kubelet-dir=.", "--pod-resources-socket=a/../b.sock", "--kubeconfig=kube/config",
		}, nil, "", func(c *config.Config) {
			c.SysfsRoot, c.HostSysfsRoot, c.DevRoot, c.HostDevRoot = "/tmp/sys", "/tmp/sys", "/tmp/dev", "/tmp/dev"
			c.KubeletDir, c.PodResourcesSocket, c.Kubeconfig = "/tmp", "/tmp/b.sock", "/tmp/kube/config"
		}},
		{"empty flags", []string{"--cdi-dir=", "--node-name=", "--kubeconfig=", "--http-address=", "--socket=", "--state-dir="}, nil, "", func(c *config.Config) { c.HTTPAddress, c.Socket, c.StateDir = "", "", "" }},
		{"empty variables", nil, map[string]string{"ACCELERATOR_CDI_DIR": "", "ACCELERATOR_NODE_NAME": "", "ACCELERATOR_KUBECONFIG": ""}, "", func(*config.Config) {}},
		{"empty flag over the file", []string{"--cdi-dir="}, nil, "cdiDir: /c\n", func(*config.Config) {}},
		{"longest namespace", []string{"--resource-namespace=" + strings.Repeat("n", 244)}, nil, "",
			func(c *config.Config) { c.ResourceNamespace = strings.Repeat("n", 244) }},
		{"namespace of one letter, and CDI", []string{"--resource-namespace=a", "--cdi-dir=/c"}, nil, "",
			func(c *config.Config) { c.ResourceNamespace, c.CDIDir = "a", "/c" }},
		{"events by their flag alone", []string{"--events", "--node-name=n"}, nil, "", func(c *config.Config) { c.Events, c.NodeName = true, "n" }},
		{"events of the file, node of a variable", nil, map[string]string{"ACCELERATOR_NODE_NAME": "n"}, "events: true\n",
			func(c *config.Config) { c.Events, c.NodeName = true, "n" }},
		{"condition", []string{"--node-name=n"}, nil, "nodeConditionType: accelerator.b-com.com/CardsHealthy\n",
			func(c *config.Config) { c.NodeConditionType, c.NodeName = "accelerator.b-com.com/CardsHealthy", "n" }},
		{"condition without a domain", []string{"--node-name=n", "--node-condition-type=AcceleratedHardwareReady"}, nil, "",
			func(c *config.Config) { c.NodeConditionType, c.NodeName = "AcceleratedHardwareReady", "n" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := must.Value(load(t, test.flags, test.variables, test.yaml))(t)
			want := config.Defaults()
			want.HostDevRoot, want.HostSysfsRoot = want.DevRoot, want.SysfsRoot
			test.adjust(&want)
			compare.Values(t, "config", want, got)
		})
	}
}

// Errors contain the setting, the value found and the allowed values.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name      string
		flags     []string
		variables map[string]string
		yaml      string
		want      []string // all of these are in the error
	}{
		{"interval too short", []string{"--resync-interval=49ms"}, nil, "", []string{"--resync-interval", "49ms", "50ms or more"}},
		{"interval without unit", nil, nil, "healthInterval: 5", []string{"config.yaml:1", "healthInterval", `"5"`, "50ms or more"}},
		{"negative hold", nil, map[string]string{"ACCELERATOR_RECOVERY_HOLD": "-1s"}, "", []string{"ACCELERATOR_RECOVERY_HOLD", "-1s", "0s or more"}},
		{"empty variable", nil, map[string]string{"ACCELERATOR_LOG_LEVEL": ""}, "", []string{"ACCELERATOR_LOG_LEVEL", "debug, info, warn, error"}},
		{"units none", []string{"--accel-nbunits=0"}, nil, "", []string{"0", "from 1 to 10000"}},
		{"mode", []string{"--mode=zen"}, nil, "", []string{"zen", "want one of single, af, region, regiondevel, pool"}},
		{"vfio-cdev that is a word", nil, nil, "vfioCdev: yes\n", []string{"config.yaml:1", "vfioCdev", `"yes"`, "true or false"}},
		{"namespace empty", nil, map[string]string{"ACCELERATOR_RESOURCE_NAMESPACE": ""}, "", []string{"ACCELERATOR_RESOURCE_NAMESPACE", `namespace ""`, "lower-case DNS name"}},
		{"namespace that CDI does not take", []string{"--resource-namespace=3com.example", "--cdi-dir=/c"}, nil, "", []string{"resource-namespace", `"3com.example"`, "a letter first", "no cdi-dir"}},
		{"allocation policy", nil, nil, "allocationPolicy: close\n", []string{"config.yaml:1", "allocationPolicy", `"close"`, "packed, spread"}},
		{"relative CDI directory", []string{"--cdi-dir=cdi"}, nil, "", []string{"--cdi-dir", `"cdi"`, "absolute path", "or nothing"}},
		{"CDI directory that is null", nil, nil, "cdiDir:\n", []string{"config.yaml:1", "cdiDir", "one value", "nothing"}},
		{"hook without CDI", nil, nil, "mode: region\nprogrammingHook: /h\n", []string{`programming-hook: found "/h" without cdi-dir, want both`}},
		{"arguments without hook", nil, map[string]string{"ACCELERATOR_PROGRAMMING_HOOK_ARG": "--afu x"}, "", []string{`programming-hook-arg: found "--afu x" without programming-hook, want both`}},
		{"argument with NUL", nil, nil, "programmingHookArgs: [--a, \"--b\\0\"]\n", []string{"config.yaml:1", "programmingHookArgs", `"--b\x00"`, "printable"}},
		{"argument with a card", []string{"--cdi-dir=/c", "--programming-hook=/h", "--programming-hook-arg=--device=3b:00.0"}, nil, "", []string{`programming-hook-arg: found "--device=3b:00.0"`, "--store"}},
		{"argument that is no text", []string{"--programming-hook-arg=\xff"}, nil, "", []string{"--programming-hook-arg", "printable"}},
		{"key of the arguments in the singular", nil, nil, "programmingHookArg: --a\n", []string{`found the key "programmingHookArg"`, "programmingHookArgs"}},
		{"events without node name", []string{"--events"}, nil, "", []string{"events: found true without node-name, want both: node-name is the name of this node in the API server"}},
		{"condition without node name", []string{"--node-condition-type=a/B"}, nil, "", []string{`node-condition-type: found "a/B" without node-name, want both`}},
		{"condition of the kubelet", []string{"--node-name=n", "--node-condition-type=Ready"}, nil, "", []string{"--node-condition-type", `"Ready"`, "none of the kubelet's", "or nothing"}},
		{"condition that is no type", nil, nil, "nodeConditionType: B-com/Cards Healthy\n", []string{"config.yaml:1", "nodeConditionType", "Cards Healthy", "such as accelerator.b-com.com/CardsHealthy"}},
		{"condition too long", nil, nil, "nodeConditionType: " + strings.Repeat("c", 101) + "\n", []string{"nodeConditionType", "at most 100"}},
		{"node name", []string{"--node-name=Node_1"}, nil, "", []string{"--node-name", "Node_1", "lower-case"}},
		{"node name too long", []string{"--node-name=" + strings.Repeat("n", 254)}, nil, "", []string{"nnn", "at most 253"}},
		{"kubeconfig with NUL", nil, nil, "kubeconfig: \"k\\0\"\n", []string{"config.yaml:1", "kubeconfig", "want a path, or nothing"}},
		{"relative path of the host", []string{"--host-dev-root=dev"}, nil, "", []string{"host-dev-root", "dev", "absolute path"}},
		{"path too long for sockets", []string{"--kubelet-dir=/" + strings.Repeat("k", 76)}, nil, "", []string{"kubelet-dir", "kkkk", "77 bytes", "want at most 76"}},
		{"path too long for a socket", []string{"--socket=/" + strings.Repeat("s", 107)}, nil, "", []string{"--socket", "ssss", "108 bytes", "at most 107", "or nothing"}},
		{"resource without domain", []string{"--resource-name=accelerator"}, nil, "", []string{"accelerator", "DOMAIN/NAME"}},
		{"address", []string{"--http-address=9480"}, nil, "", []string{"9480", "host:port"}},
		{"empty path", []string{"--kubelet-dir="}, nil, "", []string{"kubelet-dir", "want a path"}},
		{"unknown key", nil, nil, "mode: single\nresyncIntervall: 60s\n", []string{"config.yaml:2", "resyncIntervall", "resourceName, resourceNamespace, resources, resyncInterval,", "devRoot, events, exclude, families, flapLimit, flapWindow, health, healthInterval"}},
		{"key twice", nil, nil, "mode: single\nmode: pool\n", []string{"config.yaml:2", "mode", "found twice, first on line 1"}},
		{"key not a string", nil, nil, "mode: single\n? [mode]\n: pool\n", []string{"config.yaml:2: found a list, want a string as a key"}},
		{"merged mapping", nil, nil, "<<: {mode: pool}\n", []string{"config.yaml:1", `"<<"`}},
		{"no mapping", nil, nil, "- mode\n", []string{"config.yaml:1: found a list, want a mapping with accelNbunits, "}},
		{"two documents", nil, nil, "mode: pool\n---\nmode: single\n", []string{"config.yaml:2: found a second YAML document, want one"}},
		{"no YAML after the first document", nil, nil, "mode: pool\n---\n\"\n", []string{"not YAML"}},
		{"no YAML", nil, nil, "mode: \"pool\n", []string{"not YAML"}},
		{"file wrong though a flag wins", []string{"--mode=pool"}, nil, "mode: zen\n", []string{"mode", "zen"}},
		{"no file", []string{"--config=/nonexistent.yaml"}, nil, "", []string{"/nonexistent.yaml"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, test.flags, test.variables, test.yaml)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				compare.Contains(t, "error", want, err.Error())
			}
		})
	}
}

// Hook arguments add up within a source. If several sources have them, the strongest one replaces the others entirely.
func TestHookArguments(t *testing.T) {
	const file = "cdiDir: /c\nprogrammingHook: /h\nprogrammingHookArgs:\n- --a=1\n- &b --b 2\n- *b\n"
	for _, test := range []struct {
		name      string
		flags     []string
		variables map[string]string
		yaml      string
		want      []string
	}{
		{"variable over file", nil, map[string]string{"ACCELERATOR_PROGRAMMING_HOOK_ARG": "--c\t3\n --d"}, file, []string{"--c", "3", "--d"}},
		{"empty variable over file", nil, map[string]string{"ACCELERATOR_PROGRAMMING_HOOK_ARG": ""}, file, nil},
		{"flags over both", []string{"--programming-hook-arg=--e", "--programming-hook-arg", "--f=6"},
			map[string]string{"ACCELERATOR_PROGRAMMING_HOOK_ARG": "--c"}, file, []string{"--e", "--f=6"}},
		{"empty list", nil, nil, "programmingHookArgs: []\n", nil},
	} {
		got := must.Value(load(t, test.flags, test.variables, test.yaml))(t)
		compare.Values(t, test.name+": arguments", test.want, got.ProgrammingHookArgs)
	}
}

// The strongest source's families are used, in the daemon's order.
func TestFamilies(t *testing.T) {
	const variable = "ACCELERATOR_FAMILIES"
	for _, test := range []struct {
		name      string
		flags     []string
		variables map[string]string
		yaml      string
		want      []string
	}{
		{"default", nil, nil, "", []string{"dfl", "opae"}},
		{"list in another order", nil, nil, "families:\n- vfio\n- &o opae\n- dfl\n", []string{"dfl", "opae", "vfio"}},
		{"text in the file", nil, nil, "families: vfio, dfl\n", []string{"dfl", "vfio"}},
		{"variable over file", nil, map[string]string{variable: "vfio,opae"}, "families: [dfl]\n", []string{"opae", "vfio"}},
		{"flag over both", []string{"--families", "dfl"}, map[string]string{variable: "vfio"}, "families: [opae]\n", []string{"dfl"}},
		{"the last flag", []string{"--families=dfl", "--families=vfio"}, nil, "", []string{"vfio"}},
		{"in mode pool", nil, nil, "mode: pool\nfamilies: [vfio]\n", []string{"vfio"}},
	} {
		got := must.Value(load(t, test.flags, test.variables, test.yaml))(t)
		compare.Values(t, test.name+": families", test.want, got.Families)
	}
	const want = ", want at least one of dfl, opae, vfio, each once, separated by commas"
	for _, test := range []struct{ yaml, want string }{
		{"families: []\n", `1: families: found ""` + want},
		{"families: ''\n", `1: families: found ""` + want},
		{"families:\n", "1: families: found nothing, want one value"},
		{"families: dfl;opae\n", `1: families: found "dfl;opae"` + want},
		{"families: dfl,\n", `1: families: found "dfl,"` + want},
		{"families: DFL\n", `1: families: found "DFL"` + want},
		{"families: pool\n", `1: families: found "pool"` + want},
		{"families: [dfl, vfio, dfl]\n", `1: families: found "dfl,vfio,dfl"` + want},
		{"families:\n- dfl\n- xrt\n", `1: families: found "dfl,xrt"` + want},
		{"families:\n- dfl\n-\n", `1: families: found "dfl,"` + want},
		{"families: {dfl: true}\n", "1: families: found a mapping, want one value"},
	} {
		t.Run(test.yaml, func(t *testing.T) { wantRefusal(t, test.yaml, []string{test.want}) })
	}
	for _, text := range []string{"", "dfl,dfl", "dfl opae", "xrt"} {
		compare.Error(t, variable+"="+text, want, compare.ErrorOf(load(t, nil, map[string]string{variable: text}, "")))
		compare.Error(t, "--families="+text, want[2:], compare.ErrorOf(load(t, []string{"--families=" + text}, nil, "")))
	}
}

func TestFilesThatSetNothing(t *testing.T) {
	want := config.Defaults()
	want.HostDevRoot, want.HostSysfsRoot = want.DevRoot, want.SysfsRoot
	for _, yaml := range []string{"\n", "# only a comment\n", "---\n", "{}\n"} {
		compare.Values(t, fmt.Sprintf("%q: config", yaml), want, must.Value(load(t, nil, nil, yaml))(t))
	}
}
