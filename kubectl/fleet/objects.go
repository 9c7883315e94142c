package fleet

import (
	"context"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Pods returns all of the plugin's pods on a node, including pods that have ended.
func (f *Fleet) Pods(ctx context.Context, node string) ([]corev1.Pod, error) {
	return f.list(ctx, []string{node})
}

// Object returns the JSON that the API server serves at a path, such as /api/v1/nodes/worker-3. For lists, parameters
// can contain selectors.
func (f *Fleet) Object(ctx context.Context, path string, parameters map[string]string) ([]byte, error) {
	request := f.client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json")
	for name, value := range parameters {
		request.Param(name, value)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil { // Raw's error doesn't contain the API server's message
		return nil, refusal(err)
	}
	return result.Raw()
}

// TargetOf returns the pod as a target. ok is false if the pod has ended or doesn't manage any devices.
func TargetOf(p *corev1.Pod) (t Target, ok bool) {
	targets := choose([]corev1.Pod{*p})
	if len(targets) == 0 {
		return Target{}, false
	}
	return targets[0], true
}

// IsDRA reports whether a pod belongs to the DRA driver, even if the chart was installed with nameOverride.
func IsDRA(p corev1.Pod) bool {
	return strings.HasSuffix(p.Labels["app.kubernetes.io/name"], "-dra") || slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return len(c.Command) > 0 && path.Base(c.Command[0]) == "accelerator-dra-driver"
	})
}
