package plugins

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"b-com.com/accelerator-device-plugin/operator/api/v1"
	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestAvailable(t *testing.T) {
	yes := metav1.Condition{Status: metav1.ConditionTrue, Reason: "Applied"}
	daemonSet := func(desired, current, updated, ready, available int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: appsv1.DaemonSetStatus{ObservedGeneration: 2,
			DesiredNumberScheduled: desired, CurrentNumberScheduled: current, UpdatedNumberScheduled: updated, NumberReady: ready, NumberAvailable: available}}
	}
	stale := daemonSet(1, 1, 1, 1, 1)
	stale.Generation = 3
	pod := func(state string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: state, Message: "why"}}}}
		return p
	}
	initial := corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: pod("ErrImagePull").Status.ContainerStatuses}}
	unscheduled := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	unscheduled.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no memory"}}
	for _, tc := range []struct {
		name     string
		accepted metav1.Condition
		d        *appsv1.DaemonSet
		pods     []corev1.Pod
		want     string // STATUS REASON: MESSAGE
	}{
		{"refused", metav1.Condition{Status: metav1.ConditionFalse, Reason: "InvalidValues", Message: "m"}, daemonSet(1, 1, 1, 1, 1), nil, "False InvalidValues: not accepted: m"},
		{"none", yes, nil, nil, "False RollingOut: the DaemonSet controller has not observed the current spec"},
		{"applied just now", yes, stale, nil, "False RollingOut: the DaemonSet controller has not observed the current spec"},
		{"no nodes", yes, daemonSet(0, 0, 0, 0, 0), nil, "True NoNodes: no node matches"},
		{"ready", yes, daemonSet(2, 2, 2, 2, 2), nil, "True Ready: 2 of 2 nodes have a ready plugin"},
		{"ready for less than minReadySeconds", yes, daemonSet(2, 2, 2, 2, 1), nil, "False RollingOut: 2 of 2 nodes have a ready plugin; 2 have a pod of the current spec"},
		{"old spec", yes, daemonSet(2, 2, 1, 2, 2), nil, "False RollingOut: 2 of 2 nodes have a ready plugin; 1 have a pod of the current spec"},
		{"image", yes, daemonSet(1, 1, 1, 0, 0), []corev1.Pod{pod("ContainerCreating"), pod("ImagePullBackOff")}, "False PodsWaiting: 0 of 1 nodes have a ready plugin; pod p on n: ImagePullBackOff: why"},
		{"image of the init container", yes, daemonSet(1, 1, 1, 0, 0), []corev1.Pod{initial}, "False PodsWaiting: 0 of 1 nodes have a ready plugin; pod  on : ErrImagePull: why"},
		{"starting", yes, daemonSet(1, 1, 1, 0, 0), []corev1.Pod{pod("PodInitializing")}, "False RollingOut: 0 of 1 nodes have a ready plugin; 1 have a pod of the current spec"},
		{"no room", yes, daemonSet(1, 1, 1, 0, 0), []corev1.Pod{unscheduled}, "False PodsWaiting: 0 of 1 nodes have a ready plugin; pod p: Unschedulable: no memory"},
		{"no pod", yes, daemonSet(2, 1, 1, 1, 1), nil, "False RollingOut: 1 of 2 nodes have a ready plugin; 1 have a pod of the current spec; nodes without a pod: see the events of the DaemonSet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := available(tc.accepted, tc.d, tc.pods)
			if got := string(c.Status) + " " + c.Reason + ": " + c.Message; got != tc.want || c.Type != v1.ConditionAvailable {
				t.Errorf("%s %s, want %s", c.Type, got, tc.want)
			}
		})
	}
}

// A spec that is refused causes one Event, although two conditions change.
func TestRefusalRecordedOnce(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := &reconciler{recorder: recorder, log: zap.NewNop()}
	p := &v1.FpgaDevicePlugin{}
	for _, accepted := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue} {
		c := metav1.Condition{Type: v1.ConditionAccepted, Status: accepted, Reason: "A", Message: "m"}
		p.Status.Conditions = []metav1.Condition{c, available(c, nil, nil)}
		for _, c := range p.Status.Conditions {
			r.record(p, nil, c)
		}
	}
	close(recorder.Events)
	var got []string
	for e := range recorder.Events {
		got = append(got, e)
	}
	compare.Values(t, "Events", []string{"Warning A m", "Normal A m", "Normal RollingOut the DaemonSet controller has not observed the current spec"}, got)
}

func TestNodeNames(t *testing.T) {
	pod := func(node string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	}
	got := nodeNames([]corev1.Pod{pod("b", corev1.PodRunning), pod("a", corev1.PodRunning), pod("b", corev1.PodRunning), pod("c", corev1.PodPending), pod("", corev1.PodPending)})
	compare.Values(t, "nodes", []string{"a", "b"}, got)
}

// A message is at most as long as the note of a Kubernetes Event, and valid UTF-8.
func TestShort(t *testing.T) {
	if got := short(strings.Repeat("é", 1000)); len(got) > 1024 || strings.Trim(got, "é") != "…" {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	compare.Equal(t, "short", "a", short("a"))
}
