package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A record keeps every state, even one that the next event ends at once.
func TestRecord(t *testing.T) {
	events := make(chan watch.Event, 8)
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	for _, event := range []watch.Event{
		{Type: watch.Added, Object: pod("a", "")}, {Type: watch.Modified, Object: pod("a", "e2e")},
		{Type: watch.Added, Object: pod("b", "")}, {Type: watch.Deleted, Object: pod("a", "e2e")},
	} {
		events <- event
	}
	close(events)
	r := &record[*corev1.Pod]{changed: make(chan struct{})}
	r.add(events)
	var got []map[string]string
	states, _, err := r.now()
	for _, st := range states {
		nodes := map[string]string{}
		for name, pod := range st.objects {
			nodes[name] = pod.Spec.NodeName
		}
		got = append(got, nodes)
	}
	want := []map[string]string{{"a": ""}, {"a": "e2e"}, {"a": "e2e", "b": ""}, {"b": ""}}
	if diff := cmp.Diff(want, got); diff != "" || err == nil {
		t.Errorf("(-want +got):\n%s\nerror after the end of the watch: %v", diff, err)
	}
}

func TestFrom(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	var states []moment[int]
	for second := range 3 {
		states = append(states, moment[int]{at: at(second), objects: map[string]int{"value": second}})
	}
	for second, want := range map[int][]int{-1: {0, 1, 2}, 0: {0, 1, 2}, 1: {1, 2}, 9: {2}} {
		var got []int
		for _, st := range from(states, at(second)) {
			got = append(got, st.objects["value"])
			if st.at.Before(at(second)) {
				t.Errorf("from %d: found a state at %v", second, st.at)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %d (-want +got):\n%s", second, diff)
		}
	}
}
