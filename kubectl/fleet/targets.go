package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Selector selects the device plugin's and the DRA driver's pods by the labels that the charts set.
const Selector = "app.kubernetes.io/name in (accelerator-device-plugin,accelerator-device-plugin-dra)"

// container is the name of the main container in the device plugin's and the DRA driver's pods.
const container = "accelerator-device-plugin"

// Fleet queries the plugin's pods in a cluster. Create it with [New], and set the exported fields before its first use.
type Fleet struct {
	Limit    time.Duration         // how long to wait for a node
	History  bool                  // whether the answers keep the cards' history, which takes up most of the memory
	Progress func(done, total int) // called after each answer, but never concurrently; may be nil

	pause               time.Duration // time until a failed pod is queried again
	relist              time.Duration // time between listings of the pods, if no command fails
	lasting             time.Duration // minimum time that a command follows a pod; up to half of it is added at random
	config              *rest.Config
	client              corev1client.CoreV1Interface
	namespace, selector string
}

// New returns a Fleet of the pods in a namespace that match a label selector. If namespace is "", the Fleet covers all
// namespaces. If selector is "", New uses [Selector].
func New(config *rest.Config, namespace, selector string) (*Fleet, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // no limit, because a command sends only a few requests
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := corev1client.NewForConfig(config)
	return &Fleet{
		Limit: 10 * time.Second, pause: time.Second, relist: 30 * time.Second, lasting: 4 * time.Minute,
		config: config, client: client, namespace: namespace, selector: cmp.Or(selector, Selector),
	}, err
}

// Target is the pod of a release on a node.
type Target struct {
	Node      string
	Namespace string
	Pod       string // "" if the release has no pod on the node
	Problem   error  // why the pod can't be queried; nil if it can

	release string // identifies the DaemonSet; see releaseOf
	ready   bool
}

// String returns NODE (NAMESPACE/POD).
func (t Target) String() string {
	if t.Pod == "" {
		return t.Node
	}
	return fmt.Sprintf("%s (%s/%s)", t.Node, t.Namespace, t.Pod)
}

var errNoPod = errors.New("found no pod of the plugin on this node")

// Targets returns the pods on the given nodes, or on all nodes if none are given, sorted by node. A given node without
// a pod gets a Target with a Problem. If no nodes are given and there are no pods, Targets returns an error.
func (f *Fleet) Targets(ctx context.Context, nodes ...string) ([]Target, error) {
	pods, err := f.list(ctx, nodes)
	if err != nil {
		return nil, err
	}
	targets := choose(pods)
	for _, node := range nodes {
		if !slices.ContainsFunc(targets, func(t Target) bool { return t.Node == node }) {
			targets = append(targets, Target{Node: node, Problem: errNoPod})
		}
	}
	if len(targets) == 0 {
		where := "any namespace"
		if f.namespace != "" {
			where = "namespace " + f.namespace
		}
		return nil, fmt.Errorf("found no pod of the plugin in %s, want one with the labels %q", where, f.selector)
	}
	slices.SortFunc(targets, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	return targets, nil
}

// list returns the pods on the given nodes, or on all nodes if none are given.
func (f *Fleet) list(ctx context.Context, nodes []string) ([]corev1.Pod, error) {
	options := metav1.ListOptions{LabelSelector: f.selector}
	if len(nodes) == 1 {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", nodes[0]).String()
	}
	list, err := f.client.Pods(f.namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("pods of the plugin: %w", refusal(err))
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return len(nodes) > 0 && !slices.Contains(nodes, p.Spec.NodeName)
	}), nil
}

// choose returns one pod per release and node. It prefers pods that are ready, and then newer ones.
func choose(pods []corev1.Pod) []Target {
	chosen := make(map[[2]string]*corev1.Pod)
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || onlyFinishes(p) {
			continue
		}
		key := [2]string{p.Spec.NodeName, releaseOf(p)}
		if other := chosen[key]; other == nil || better(p, other) {
			chosen[key] = p
		}
	}
	var targets []Target
	for p := range maps.Values(chosen) {
		targets = append(targets, target(p))
	}
	return targets
}

func target(p *corev1.Pod) Target {
	t := Target{Node: p.Spec.NodeName, Namespace: p.Namespace, Pod: p.Name, release: releaseOf(p), ready: isReady(p)}
	why := ""
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == container {
			if c.State.Running != nil {
				return t
			}
			if c.State.Waiting != nil {
				why = c.State.Waiting.Reason
			}
		}
	}
	t.Problem = errors.New(strings.TrimSpace("its container does not run: pod " + cmp.Or(string(p.Status.Phase), "unknown") + " " + why))
	return t
}

// releaseOf returns the namespace and UID of a pod's DaemonSet. It includes the namespace because a pod in another
// namespace can pretend to belong to the DaemonSet.
func releaseOf(p *corev1.Pod) string {
	if owner := metav1.GetControllerOf(p); owner != nil {
		return p.Namespace + "/" + string(owner.UID)
	}
	return string(p.UID)
}

// onlyFinishes reports whether a pod does nothing but finish an earlier DRA driver's claims.
func onlyFinishes(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "ACCELERATOR_FINISH_CLAIMS" && e.Value == "true" })
	})
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// better reports whether to query pod a rather than pod b.
func better(a, b *corev1.Pod) bool {
	rank := func(p *corev1.Pod) int {
		n := 0
		if isReady(p) {
			n += 2
		}
		if p.DeletionTimestamp == nil {
			n++
		}
		return n
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) > 0
}
