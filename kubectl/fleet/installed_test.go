package fleet_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The pods of all daemons that the charts, the manifests and the operator install are found, and have the expected
// container. Pods that keep bitstreams are not found, because they know no cards.
func TestInstalled(t *testing.T) {
	selector := must.Value(labels.Parse(fleet.Selector))(t)
	for pattern, want := range map[string]int{
		"../../deploy/manifests/*.yaml": 2, "../../tools/chart/testdata/plugin/*.golden": 3, "../../operator/plugins/testdata/*.golden": 2,
	} {
		files := must.Value(filepath.Glob(pattern))(t)
		found := 0
		for _, file := range files {
			text := must.Value(os.ReadFile(file))(t)
			for _, document := range strings.Split(string(text), "\n---\n") {
				var set appsv1.DaemonSet
				if !strings.Contains(document, "kind: DaemonSet\n") {
					continue
				}
				if err := yaml.Unmarshal([]byte(document), &set); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				pod := set.Spec.Template
				if strings.HasSuffix(set.Name, "-bitstreams") {
					if selector.Matches(labels.Set(pod.Labels)) {
						t.Errorf("%s: DaemonSet %s with the labels %v, want others than those of %q", file, set.Name, pod.Labels, fleet.Selector)
					}
					continue
				}
				found++
				if !selector.Matches(labels.Set(pod.Labels)) || !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "accelerator-device-plugin" }) {
					t.Errorf("%s: DaemonSet %s with the labels %v, want those of %q, and the container accelerator-device-plugin", file, set.Name, pod.Labels, fleet.Selector)
				}
			}
		}
		if found < want {
			t.Errorf("%s: found %d DaemonSets, want at least %d", pattern, found, want)
		}
	}
}
