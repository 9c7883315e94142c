package chart_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// conditionType is the default type of the condition: the examples must select it.
const conditionType = "accelerator.b-com.com/CardsHealthy"

// decodeExample decodes the documents of a file in deploy/examples. Unknown keys are errors.
func decodeExample(t *testing.T, name string, to ...any) {
	t.Helper()
	documents := strings.Split(read(t, "../../deploy/examples/"+name), "\n---\n")
	if len(documents) != len(to) {
		t.Fatalf("%s: %d documents, want %d", name, len(documents), len(to))
	}
	for i, d := range documents {
		must.Succeed(t, yaml.UnmarshalStrict([]byte(d), to[i]))
	}
}

// The pods of the documents are ones that the API server takes, and mount only volumes that they have.
func TestDocumentedPods(t *testing.T) {
	for page, want := range map[string]string{"programming.md": "loopback", "bitstreams.md": "own-bitstream"} {
		block := regexp.MustCompile("(?s)\n( *)```yaml\n((?: *#[^\n]*\n)? *apiVersion: v1\n *kind: Pod\n.*?\n) *```").FindStringSubmatch(read(t, "../../docs/"+page))
		if block == nil {
			t.Fatalf("%s: found no pod, want %s", page, want)
		}
		pod := only[*corev1.Pod](t, objects(t, strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n")))
		compare.Equal(t, page+": pod", want, pod.Name)
		for _, mount := range pod.Spec.Containers[0].VolumeMounts {
			if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name && v.Image != nil && v.Image.Reference != "" }) {
				t.Errorf("%s: pod %s: found no image volume %s", page, pod.Name, mount.Name)
			}
		}
	}
}

// The keys and rules come from pkg/custompluginmonitor/types/config.go of node-problem-detector.
func TestNodeProblemDetectorExample(t *testing.T) {
	var configMap corev1.ConfigMap
	var patch appsv1.DaemonSet
	decodeExample(t, "node-problem-detector.yaml", &configMap, &patch)
	var config struct {
		Plugin       string
		PluginConfig struct {
			Interval      string `json:"invoke_interval"`
			Timeout       string
			MaxOutput     int `json:"max_output_length"`
			Concurrency   int
			MessageChange bool `json:"enable_message_change_based_condition_update"`
		}
		Source     string
		Conditions []struct{ Type, Reason, Message string }
		Rules      []struct {
			Type, Condition, Reason, Path, Timeout string
			Args                                   []string
		}
	}
	must.Succeed(t, privatedir.DecodeJSON([]byte(configMap.Data["fpga-monitor.json"]), &config))
	if config.Plugin != "custom" || len(config.Rules) != 1 || len(config.Conditions) != 1 {
		t.Fatalf("%+v, want the plugin custom with one condition and one rule", config)
	}
	rule, of := config.Rules[0], map[string]time.Duration{}
	for name, text := range map[string]string{"interval": config.PluginConfig.Interval, "timeout": config.PluginConfig.Timeout, "rule": rule.Timeout} {
		of[name] = must.Value(time.ParseDuration(text))(t)
	}
	// The command waits for the daemon for 10 s.
	if of["rule"] > of["timeout"] || of["rule"] <= 10*time.Second || of["interval"] <= of["timeout"] {
		t.Errorf("durations %v: want more than 10 s for the rule, at most the global timeout, and a longer interval", of)
	}
	if rule.Type != "permanent" || rule.Condition != config.Conditions[0].Type || !slices.Equal(rule.Args, []string{"check", "--socket", "/host/run/accelerator-device-plugin/daemon.sock"}) {
		t.Errorf("rule %+v of the condition %+v", rule, config.Conditions[0])
	}
	pod := patch.Spec.Template.Spec
	paths := map[string]string{} // of the host, by that in the container
	for _, m := range pod.Containers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Fatalf("no volume %s", m.Name)
		}
		if host := pod.Volumes[i].HostPath; host != nil {
			paths[m.MountPath] = host.Path
		} else if pod.Volumes[i].ConfigMap.Name != configMap.Name {
			t.Errorf("volume %+v, want the ConfigMap %s", pod.Volumes[i], configMap.Name)
		}
	}
	service := read(t, "../../deploy/systemd/accelerator-device-plugin.service")
	program := paths[filepath.Dir(rule.Path)] + "/" + filepath.Base(rule.Path)
	if !strings.Contains(service, "ExecStart="+program) || !strings.Contains(service, "RuntimeDirectory=accelerator-device-plugin\n") || paths["/host/run"] != "/run" {
		t.Errorf("mounts %v: want the program of the systemd unit at %s, and its socket", paths, rule.Path)
	}
}

// The keys and rules come from api/v1alpha1/nodereadinessrule_types.go of the Node Readiness Controller.
func TestNodeReadinessExample(t *testing.T) {
	var rule struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta
		Spec            struct {
			Conditions []struct {
				Type           string
				RequiredStatus corev1.ConditionStatus
			}
			EnforcementMode string
			Taint           corev1.Taint
			NodeSelector    metav1.LabelSelector
		}
	}
	decodeExample(t, "node-readiness-rule.yaml", &rule)
	s := rule.Spec
	if rule.APIVersion != "readiness.node.x-k8s.io/v1alpha1" || rule.Kind != "NodeReadinessRule" || rule.Metadata.Name == "" ||
		len(s.Conditions) != 1 || s.Conditions[0].Type != conditionType || s.Conditions[0].RequiredStatus != "True" {
		t.Errorf("%+v, want a rule for %s", rule, conditionType)
	}
	if key, ok := strings.CutPrefix(s.Taint.Key, "readiness.k8s.io/"); !ok || key == "" || strings.Contains(key, "/") || s.Taint.Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("taint %+v, want readiness.k8s.io/NAME with the effect NoSchedule", s.Taint)
	}
	if s.EnforcementMode != "bootstrap-only" || len(s.NodeSelector.MatchLabels) == 0 {
		t.Errorf("mode %q for nodes %v", s.EnforcementMode, s.NodeSelector)
	}
}

// The keys come from docs/configuration/kubernetes-object-monitor.md of NVSentinel. The expression is true only while
// the condition is False. If it is copied without changes, the policy must not drain nodes.
func TestNVSentinelExample(t *testing.T) {
	var values struct {
		Global  struct{ KubernetesObjectMonitor struct{ Enabled bool } }
		Monitor struct {
			Policies []struct {
				Name        string
				Enabled     bool
				Resource    struct{ Group, Version, Kind string }
				Predicate   struct{ Expression string }
				HealthEvent struct {
					ComponentClass, Message, RecommendedAction string
					IsFatal                                    bool
					ErrorCode                                  []string
				}
			}
		} `json:"kubernetes-object-monitor"`
	}
	decodeExample(t, "nvsentinel-values.yaml", &values)
	if !values.Global.KubernetesObjectMonitor.Enabled || len(values.Monitor.Policies) != 1 {
		t.Fatalf("%+v, want one policy", values)
	}
	p := values.Monitor.Policies[0]
	if !p.Enabled || p.Resource.Group+"/"+p.Resource.Version+"/"+p.Resource.Kind != "/v1/Node" || p.HealthEvent.Message == "" || p.HealthEvent.RecommendedAction != "CONTACT_SUPPORT" || p.HealthEvent.IsFatal {
		t.Errorf("policy %+v", p)
	}
	env := must.Value(cel.NewEnv(cel.Variable("resource", cel.DynType)))(t)
	ast, issues := env.Compile(p.Predicate.Expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program := must.Value(env.Program(ast))(t)
	for status, want := range map[string]bool{
		`{}`: false,
		`{"conditions":[{"type":"Ready","status":"False"}]}`:                                                  false,
		`{"conditions":[{"type":"` + conditionType + `","status":"True"},{"type":"Ready","status":"False"}]}`: false,
		`{"conditions":[{"type":"` + conditionType + `","status":"Unknown"}]}`:                                false,
		`{"conditions":[{"type":"Ready","status":"True"},{"type":"` + conditionType + `","status":"False"}]}`: true,
	} {
		var object map[string]any
		must.Succeed(t, json.Unmarshal([]byte(`{"status":`+status+`}`), &object))
		got, _, err := program.Eval(map[string]any{"resource": object})
		if err != nil || got.Value() != want {
			t.Errorf("%s: %v, %v, want %t", status, got, err, want)
		}
	}
}
