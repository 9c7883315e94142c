package chart_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// schema contains the fields of a JSON schema that the tests use.
type schema struct {
	Type                 any
	Properties           map[string]schema
	AdditionalProperties json.RawMessage
	Items                *schema
	Enum                 []string
	Minimum, Maximum     *int
}

func (c chart) readSchema(t *testing.T) schema {
	t.Helper()
	var s schema
	must.Succeed(t, json.Unmarshal([]byte(read(t, c.dir+"/values.schema.json")), &s))
	return s
}

// refusal returns the daemon's error for the contents of a configuration file.
func refusal(t *testing.T, file string) string {
	t.Helper()
	loader := newLoader()
	loader.Config.File = t.TempDir() + "/config.yaml"
	write(t, loader.Config.File, file)
	err := loader.Load(func(string) (string, bool) { return "", false })
	compare.Error(t, file, "", err)
	return fmt.Sprint(err)
}

// after returns the list in an error, from a word to the end of the line.
func after(refusal, word string) []string {
	_, list, ok := strings.Cut(refusal, word)
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n")
	return strings.Split(list, ", ")
}

// config has exactly the keys of the daemon's YAML file. They are taken from the daemon's error for
// an unknown key.
func TestSchemaHasTheDaemonsKeys(t *testing.T) {
	config := plugin.readSchema(t).Properties["config"]
	rule := config.Properties["resources"].Items
	for _, tt := range []struct {
		name, file string
		schema     schema
	}{
		{"settings", "noSuchKey: 1", config},
		{"health", "health: {noSuchKey: 1}", config.Properties["health"]},
		{"rule", "resources: [{name: example.com/a, match: {family: dfl}, noSuchKey: 1}]", *rule},
		{"match", "resources: [{name: example.com/a, match: {noSuchKey: 1}}]", rule.Properties["match"]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			compare.Values(t, "keys", after(refusal(t, tt.file), "want one of "), slices.Sorted(maps.Keys(tt.schema.Properties)))
		})
	}
}

// The numbers and the enumerations of the daemon have the same bounds and words in the schema.
func TestSchemaHasTheDaemonsValues(t *testing.T) {
	config := plugin.readSchema(t).Properties["config"]
	check := func(t *testing.T, file string, s schema) {
		refused := refusal(t, file)
		compare.Values(t, "words", after(refused, "want one of "), s.Enum)
		bounds := ""
		if s.Minimum != nil && s.Maximum != nil {
			bounds = fmt.Sprintf("want a whole number from %d to %d", *s.Minimum, *s.Maximum)
		}
		if !strings.Contains(refused, bounds) || (s.Type == "integer") != strings.Contains(refused, "whole number") {
			t.Errorf("error of the daemon %q, schema: %v %q", refused, s.Type, bounds)
		}
	}
	optional := []string{"nodeName", "kubeconfig", "cgroupRoot", "sysfsRoot", "devRoot", "kubeletDir", "podResourcesSocket", "socket", "stateDir"} // free text, or set by the chart
	for key, s := range config.Properties {
		if s.Type == "array" || s.Type == "object" || slices.Contains(optional, key) {
			continue
		}
		t.Run(key, func(t *testing.T) { check(t, key+`: "?"`, s) })
	}
	t.Run("virtualFunction", func(t *testing.T) {
		check(t, `resources: [{name: example.com/a, match: {virtualFunction: "?"}}]`, config.Properties["resources"].Items.Properties["match"].Properties["virtualFunction"])
	})
	t.Run("severity", func(t *testing.T) {
		var words schema
		must.Succeed(t, json.Unmarshal(config.Properties["health"].Properties["severity"].AdditionalProperties, &words))
		check(t, `health: {severity: {port-ap6: "?"}}`, words)
	})
}

// All objects of the schema refuse unknown keys, except the maps whose keys the user chooses.
func TestSchemaIsStrict(t *testing.T) {
	charts(t, func(t *testing.T, c chart) {
		want := []string{
			".global", ".nodeSelector", ".podAnnotations", ".podLabels", ".podMonitor.labels",
			".scrapers[].namespaceSelector.matchLabels", ".scrapers[].podSelector.matchLabels", ".serviceAccount.annotations",
		}
		if c == plugin {
			want = append(want, ".config.health.severity", ".dashboard.labels", ".prometheusRule.labels")
		}
		slices.Sort(want)
		compare.Values(t, "objects that accept unknown keys", want, open(c.readSchema(t)))
	})
}

// open returns the paths of objects that accept unknown keys.
func open(s schema) []string {
	var open []string
	var walk func(path string, s schema)
	walk = func(path string, s schema) {
		if s.Type == "object" && string(s.AdditionalProperties) != "false" {
			open = append(open, path)
		}
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			walk(path+"."+key, s.Properties[key])
		}
		if s.Items != nil {
			walk(path+"[]", *s.Items)
		}
	}
	walk("", s)
	slices.Sort(open)
	return open
}

// The top level of the schema has exactly the keys of values.yaml, and global.
func TestSchemaHasTheValues(t *testing.T) {
	charts(t, func(t *testing.T, c chart) {
		var values map[string]any
		must.Succeed(t, yaml.Unmarshal([]byte(read(t, c.dir+"/values.yaml")), &values))
		want := append(slices.Collect(maps.Keys(values)), "global") // Helm adds it
		slices.Sort(want)
		compare.Values(t, "keys", want, slices.Sorted(maps.Keys(c.readSchema(t).Properties)))
	})
}

// refused has values that helm refuses, and a part of its error.
type refused struct{ name, values, want string }

func TestRefused(t *testing.T) {
	plugin.refuses(t, []refused{
		{"unknown key", "imgae: {}", "additional properties 'imgae' not allowed"},
		{"tag with colon", "image: {tag: 'a:b'}", "at '/image/tag'"},
		{"tag that YAML takes for a number", "image: {tag: 1.10}", "got number, want string"},
		{"invalid digest", "image: {digest: abc}", "at '/image/digest'"},
		{"pull policy", "image: {pullPolicy: Sometimes}", "'Always', 'IfNotPresent', 'Never'"},
		{"repository without a registry", "image: {pullPolicy: IfNotPresent}", `image.repository: found "accelerator-device-plugin" with pullPolicy IfNotPresent, want a name with a registry (REGISTRY/accelerator-device-plugin), or pullPolicy Never`},
		{"repository with a team", "image: {repository: team/adp, pullPolicy: Always}", `image.repository: found "team/adp" with pullPolicy Always, want a name with a registry`},
		{"only the device plugin's image in a registry", "api: dra\nimage: {repository: example.com/x}", `dra.image.repository: found "accelerator-dra-driver" without a registry, but image.repository is "example.com/x", want this image to be in a registry too, or dra.image.pullPolicy Never`},
		{"image of bitstreams in no registry", "image: {repository: example.com/x}\nbitstreams: {references: [example.com/a]}", `bitstreams.image.repository: found "accelerator-fpga-registry" without a registry`},
		{"repository of dra without a registry", "api: dra\ndra: {image: {pullPolicy: Always}}", `dra.image.repository: found "accelerator-dra-driver" with pullPolicy Always, want a name with a registry`},
		{"name in capitals", "fullnameOverride: Plugin", "at '/fullnameOverride'"},
		{"resource name without domain", "config: {resourceName: fpga}", "at '/config/resourceName'"},
		{"namespace in capitals", "config: {resourceNamespace: FPGA}", "at '/config/resourceNamespace'"},
		{"no units", "config: {accelNbunits: 0}", "minimum: got 0, want 1"},
		{"CDI directory that is relative", "config: {cdiDir: cdi}", "at '/config/cdiDir'"},
		{"address that the kubelet cannot probe", "config: {httpAddress: '127.0.0.1:9480'}", "at '/config/httpAddress'"},
		{"port too high", "config: {httpAddress: ':65536'}", `config.httpAddress: found ":65536", want a port from 1 to 65535`},
		{"port 0", "config: {httpAddress: ':0'}", `config.httpAddress: found ":0", want a port from 1 to 65535`},
		{"invalid duration", "config: {flapWindow: soon}", "at '/config/flapWindow'"},
		{"excluded by name", "config: {exclude: [card1]}", "at '/config/exclude/0'"},
		{"excluded twice", "config: {exclude: ['3b:00.0', '3b:00.0']}", "at '/config/exclude'"},
		{"rule without match", "config: {resources: [{name: example.com/a}]}", "missing property 'match'"},
		{"rule that matches all", "config: {resources: [{name: example.com/a, match: {}}]}", "minProperties"},
		{"synonyms", "config: {resources: [{name: example.com/a, match: {family: dfl}}, {name: example.com/b, match: {pciDevice: bccf, device: bccf}}]}", "config.resources[1].match: found both pciDevice and device, want only one of them, because they mean the same"},
		{"vendor", "config: {resources: [{name: example.com/a, match: {vendor: Intel}}]}", "at '/config/resources/0/match/vendor'"},
		{"subsystem without vendor", "config: {resources: [{name: example.com/a, match: {subsystem: '1771'}}]}", "at '/config/resources/0/match/subsystem'"},
		{"physical function", "config: {resources: [{name: example.com/a, match: {physicalFunction: '3b:00'}}]}", "at '/config/resources/0/match/physicalFunction'"},
		{"unknown family", "config: {families: [dfl, pool]}", "at '/config/families/1'"},
		{"family twice", "config: {families: [dfl, dfl]}", "at '/config/families'"},
		{"AFU id", "config: {resources: [{name: example.com/a, match: {afuId: abc}}]}", "at '/config/resources/0/match/afuId'"},
		{"set by the chart: sysfsRoot", "config: {sysfsRoot: /sys}", "config.sysfsRoot: set by the chart: the runtime mounts /sys"},
		{"set by the chart: devRoot", "config: {devRoot: /dev}", "config.devRoot: set by the chart"},
		{"set by the chart: hostDevRoot", "config: {hostDevRoot: /dev}", "config.hostDevRoot: set by the chart: it is /dev"},
		{"set by the chart: hostSysfsRoot", "config: {hostSysfsRoot: /sys}", "config.hostSysfsRoot: set by the chart: it is /sys"},
		{"set by the chart: kubeletDir", "config: {kubeletDir: /x}", "config.kubeletDir: set by the chart: want kubelet.devicePluginDir"},
		{"set by the chart: podResourcesSocket", "config: {podResourcesSocket: /x}", "config.podResourcesSocket: set by the chart: want kubelet.rootDir"},
		{"set by the chart: nodeName", "config: {nodeName: a}", "config.nodeName: set by the chart: it is the pod's node"},
		{"set by the chart: kubeconfig", "config: {kubeconfig: /x}", "config.kubeconfig: set by the chart"},
		{"set by the chart: nodeAnnotation", "config: {nodeAnnotation: true}", "config.nodeAnnotation: set by the chart: want the value nodeAnnotation"},
		{"set by the chart: events", "config: {events: true}", "config.events: set by the chart: want the value events"},
		{"simulated node that is relative", "simulatedNode: simulated", "at '/simulatedNode'"},
		{"simulated node with a slash at its end", "simulatedNode: /simulated/", "at '/simulatedNode'"},
		{"kubelet root that is relative", "kubelet: {rootDir: kubelet}", "at '/kubelet/rootDir'"},
		{"kubelet root with a slash at its end", "kubelet: {rootDir: /var/lib/kubelet/}", "at '/kubelet/rootDir'"},
		{"account without name", "serviceAccount: {create: false}", "serviceAccount.name: found none, want the name of an account"},
		{"two affinities", "nodeFeatureDiscovery: {enabled: true}\nnodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]", "nodeSelectorTerms: found together with nodeFeatureDiscovery.enabled, want only one of them"},
		{"no label", "nodeFeatureDiscovery: {enabled: true, labels: []}", "nodeFeatureDiscovery.labels: found none, want at least one"},
		{"dra in mode pool", "api: dra\nconfig: {mode: pool}", "config.mode: found pool with api: dra, want another mode"},
		{"finishClaims in mode pool", "dra: {finishClaims: true}\nconfig: {mode: pool}", "config.mode: found pool with dra.finishClaims"},
		{"finishClaims below a long path", "dra: {finishClaims: true}\nkubelet: {rootDir: /a2345678901234567890123456789012345}", "want at most 31 with dra.finishClaims"},
		{"bitstreams without programming", "api: dra\ndra: {publishBitstreams: true}", "dra.publishBitstreams: found true without programming.enabled"},
		{"set by the chart: condition", "config: {nodeConditionType: a/B}", "config.nodeConditionType: set by the chart: want the values nodeCondition.enabled and nodeCondition.type, outside of config"},
		{"condition of the kubelet", "nodeCondition: {type: Ready}", "at '/nodeCondition/type'"},
		{"condition with a quotation mark", `nodeCondition: {type: "a\"b"}`, "at '/nodeCondition/type'"},
		{"dra with nodeAnnotation", "api: dra\nnodeAnnotation: true", "nodeAnnotation: found true with api: dra, want false"},
		{"dra with programming in mode regiondevel", "api: dra\nconfig: {mode: regiondevel}\nprogramming: {enabled: true}", "programming.enabled: found true with api: dra and config.mode regiondevel, want another mode"},
		{"dra with programming and another hook", "api: dra\nconfig: {programmingHook: /h}\nprogramming: {enabled: true}", "config.programmingHook: set by the chart: programming.hostDir"},
		{"dra with another hook", "api: dra\nconfig: {programmingHook: /h, cdiDir: /c}", "config.programmingHook: found with api: dra, want programming.enabled"},
		{"dra with another store", "api: dra\nconfig: {programmingHookArgs: [--timeout=60s, --store=/s]}\nprogramming: {enabled: true}",
			"config.programmingHookArgs: found --store=/s with api: dra, want programming.store"},
		{"dra with another store in the next argument", "api: dra\nconfig: {programmingHookArgs: [--store, /s]}\nprogramming: {enabled: true}",
			"config.programmingHookArgs: found --store with api: dra, want programming.store"},
		{"dra below a long path", "api: dra\nkubelet: {rootDir: /var/snap/microk8s/common/var/lib/kubelet}", "kubelet.rootDir: found 41 characters, want at most 31 with api: dra"},
		{"extended resource without a domain", "dra: {extendedResourceName: accelerator}", "at '/dra/extendedResourceName'"},
		{"extended resource of Kubernetes", "dra: {extendedResourceName: fpga.kubernetes.io/a}", "at '/dra/extendedResourceName': 'not' failed"},
		{"extended resource with a name of a quota", "dra: {extendedResourceName: requests.example.com/a}", "at '/dra/extendedResourceName': 'not' failed"},
		{"extended resource with a long domain", "dra: {extendedResourceName: " + strings.Repeat("a.", 122) + "a/a}", "at '/dra/extendedResourceName': 'not' failed"},
		{"extended resource with a long name", "dra: {extendedResourceName: a/" + strings.Repeat("a", 64) + "}", "at '/dra/extendedResourceName'"},
		{"empty extended resource of a class", "dra: {deviceClasses: [{name: nlb, extendedResourceName: '', match: {family: dfl}}]}", "at '/dra/deviceClasses/0/extendedResourceName'"},
		{"extended resource of Kubernetes in a class", "dra: {deviceClasses: [{name: nlb, extendedResourceName: kubernetes.io/a, match: {family: dfl}}]}", "at '/dra/deviceClasses/0/extendedResourceName': 'not' failed"},
		{"extended resource without its class", "api: dra\ndra: {deviceClass: false, extendedResourceName: a/b}", "dra.extendedResourceName: found a/b with deviceClass false, want deviceClass true"},
		{"extended resource in two classes", "api: dra\ndra: {deviceClasses: [{name: a, extendedResourceName: a/b, match: {family: dfl}}, {name: b, extendedResourceName: a/b, match: {family: opae}}]}",
			"dra.deviceClasses[1].extendedResourceName: found a/b, which is also in dra.deviceClasses[0].extendedResourceName, want a different name for each class"},
		{"extended resource of the class in another", "api: dra\ndra: {extendedResourceName: a/b, deviceClasses: [{name: a, extendedResourceName: a/b, match: {family: dfl}}]}",
			"dra.deviceClasses[0].extendedResourceName: found a/b, which is also in dra.extendedResourceName, want a different name for each class"},
		{"class with the name of the chart's", "dra: {deviceClasses: [{name: accelerator.b-com.com, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}]}", "at '/dra/deviceClasses/0/name'"},
		{"class with an invalid name", "dra: {deviceClasses: [{name: NLB, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}]}", "at '/dra/deviceClasses/0/name'"},
		{"class with an expression for a shell", "dra: {deviceClasses: [{name: u250, match: {vbnv: '\"||true||\"'}}]}", "at '/dra/deviceClasses/0/match/vbnv'"},
		{"class with an escape in a shell", "dra: {deviceClasses: [{name: u250, match: {vbnv: 'a\\'}}]}", "at '/dra/deviceClasses/0/match/vbnv'"},
		{"class with an expression for an id", "dra: {deviceClasses: [{name: nlb, match: {afuId: '\" || true || \"'}}]}", "at '/dra/deviceClasses/0/match/afuId'"},
		{"invalid class of the test", "test: {deviceClass: ''}", "at '/test/deviceClass'"},
		{"quantity", "resources: {limits: {memory: 128MB}}", "at '/resources/limits/memory'"},
		{"share above all", "updateStrategy: {rollingUpdate: {maxSurge: 101%}}", "at '/updateStrategy/rollingUpdate/maxSurge'"},
		{"surge and unavailable", "updateStrategy: {rollingUpdate: {maxUnavailable: 1}}", "found maxSurge 1 and maxUnavailable 1, want exactly one of them to be 0"},
		{"neither", "updateStrategy: {rollingUpdate: {maxSurge: 0}}", "found maxSurge 0 and maxUnavailable 0, want exactly one of them to be 0"},
		{"monitor without labels", "podMonitor: {labels: [a]}", "at '/podMonitor/labels'"},
		{"interval without unit", "podMonitor: {interval: '15'}", "at '/podMonitor/interval'"},
		{"monitor without a port", "podMonitor: {enabled: true}\nconfig: {httpAddress: ''}", "podMonitor.enabled: found true with config.httpAddress empty, want a port"},
		{"scrapers without a port", "scrapers: [{podSelector: {}}]\nconfig: {httpAddress: ''}", "scrapers: found with config.httpAddress empty, want a port"},
		{"programming in another mode", "programming: {enabled: true}", "programming.enabled: found true with config.mode single, want config.mode region, or nodeAnnotation"},
		{"programming in mode regiondevel", "programming: {enabled: true}\nconfig: {mode: regiondevel}", "programming.enabled: found true with config.mode regiondevel, want"},
		{"programming with another hook", "programming: {enabled: true}\nconfig: {mode: region, programmingHook: /h}", "config.programmingHook: set by the chart: programming.hostDir"},
		{"temperature that no FPGA bears", "programming: {maxTemperature: 151}", "at '/programming/maxTemperature'"},
		{"temperature in words", "programming: {maxTemperature: hot}", "at '/programming/maxTemperature'"},
		{"temperature with a fraction", "programming: {maxTemperature: 85.5}", "at '/programming/maxTemperature'"},
		{"temperature true", "programming: {maxTemperature: on}", "at '/programming/maxTemperature'"},
		{"directory of the program that is relative", "programming: {hostDir: bin}", "at '/programming/hostDir'"},
		{"directory of the program with a space", "programming: {hostDir: '/opt/a b'}", "at '/programming/hostDir'"},
		{"store with a slash at its end", "programming: {store: /srv/}", "at '/programming/store'"},
		{"hook without CDI", "config: {mode: region, programmingHook: /h}", "config.programmingHook: found without config.cdiDir, want both"},
		{"argument of the hook with a space", "config: {programmingHookArgs: ['--store /s']}", "at '/config/programmingHookArgs/0'"},
		{"bitstream without a registry", "bitstreams: {references: [nlb]}", "at '/bitstreams/references/0'"},
		{"bitstream with a scheme", "bitstreams: {references: ['https://example.com/a']}", "at '/bitstreams/references/0'"},
		{"bitstream with two lines", `bitstreams: {references: ["example.com/a\nexample.com/b"]}`, "at '/bitstreams/references/0'"},
		{"bitstream twice", "bitstreams: {references: [example.com/a, example.com/a]}", "at '/bitstreams/references'"},
		{"interval in seconds", "bitstreams: {interval: 30s}", "at '/bitstreams/interval'"},
		{"age of less than a day", "bitstreams: {gc: {age: 23h}}", "at '/bitstreams/gc/age'"},
		{"key that is a path", "bitstreams: {keys: cosign.pub}", "at '/bitstreams/keys'"},
		{"authority that is a path", "bitstreams: {ca: ca.pem}", "at '/bitstreams/ca'"},
		{"proxy without a scheme", "bitstreams: {proxy: 'proxy.example.com:3128'}", "at '/bitstreams/proxy'"},
		{"image of bitstreams without a registry", "bitstreams: {references: [example.com/a], image: {pullPolicy: Always}}", "bitstreams.image.repository: found \"accelerator-fpga-registry\" with pullPolicy Always, want a name with a registry"},
		{"test of a region without AFU", "programming: {enabled: true}\nconfig: {mode: region}\ntest: {resource: example.com/a}", "test.afu: found none, want an AFU"},
		{"test of an AFU without region", "test: {afu: d8424dc4}", "test.interface, test.afu: found only one of them, want both or neither"},
		{"invalid AFU", "test: {afu: nlb}", "at '/test/afu'"},
		{"interface that is too short", "test: {interface: ce489693}", "at '/test/interface'"},
		{"invalid resource of the test", "test: {resource: fpga}", "at '/test/resource'"},
	})
}

func (c chart) refuses(t *testing.T, all []refused) {
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			compare.Error(t, "render", tt.want, compare.ErrorOf(c.render(t, tt.values)))
		})
	}
}

// Versions of Kubernetes that are too old are refused. CDI needs a kubelet that passes its devices on. The driver needs resource.k8s.io/v1. Extended resources need
// their field, which older versions drop by default. The status of claims and the condition need an API server that limits
// the permission to write them. In versions that are too old for bitstreams, only one claim could have a bitstream.
func TestKubeVersion(t *testing.T) {
	plugin.kubeVersions(t, "", "incompatible with Kubernetes", map[string]bool{"1.25.16": false, "1.26.0": true, "1.30.2-gke.1": true, "v1.37.1": true})
	operator.kubeVersions(t, "", "incompatible with Kubernetes", map[string]bool{"1.29.9": false, "1.30.0": true, "1.30.2-gke.1": true, "v1.37.1": true})
	from29 := map[string]bool{"1.28.9": false, "v1.28.9-gke.1": false, "1.29.0": true, "v1.37.1": true}
	plugin.kubeVersions(t, "config: {cdiDir: /var/run/cdi}", "programming.enabled, config.cdiDir: found with Kubernetes", from29)
	plugin.kubeVersions(t, "config: {mode: region}\nprogramming: {enabled: true}", "want 1.29 or newer", from29)
	plugin.kubeVersions(t, "api: dra", "want 1.34 or newer, which serves resource.k8s.io/v1",
		map[string]bool{"1.26.0": false, "1.33.9": false, "v1.33.5-gke.1": false, "1.34.0": true, "v1.34.1-gke.2": true, "v1.37.1": true})
	from36 := map[string]bool{"1.34.0": false, "v1.35.9-gke.1": false, "1.36.0": true, "v1.36.1-gke.2": true, "v1.37.1": true}
	const extended = "dra: {extendedResourceName: b-com.com/accelerator}"
	plugin.kubeVersions(t, "api: dra\n"+extended, ".extendedResourceName: found b-com.com/accelerator with Kubernetes", from36)
	plugin.kubeVersions(t, "api: dra\ndra: {deviceClasses: [{name: a, extendedResourceName: b-com.com/accelerator, match: {family: dfl}}]}",
		".extendedResourceName: found b-com.com/accelerator with Kubernetes", from36)
	plugin.kubeVersions(t, extended, "", map[string]bool{"1.30.0": true}) // with the device plugin, the value has no effect
	plugin.kubeVersions(t, "api: dra\ndra: {claimStatus: true}", "dra.claimStatus: found true with Kubernetes", from36)
	plugin.kubeVersions(t, "api: dra\ndra: {publishBitstreams: true}\nprogramming: {enabled: true}", "dra.publishBitstreams: found true with Kubernetes", from36)
	plugin.kubeVersions(t, "nodeCondition: {enabled: true}", "nodeCondition.enabled: found true with Kubernetes",
		map[string]bool{"1.26.0": false, "v1.29.9-gke.1": false, "1.30.0": true, "v1.37.1": true})
}

// kubeVersions checks which versions the chart accepts with these values. The errors contain want.
func (c chart) kubeVersions(t *testing.T, values, want string, versions map[string]bool) {
	t.Helper()
	for version, accepted := range versions {
		_, err := c.render(t, values, "--kube-version", version)
		if err != nil && !strings.Contains(err.Error(), want) || (err == nil) != accepted {
			t.Errorf("%s: %s: version %s: error %v, want it accepted: %t", c.dir, values, version, err, accepted)
		}
	}
}
