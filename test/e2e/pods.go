package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// report is what a container sees of devices: see test/e2e/workload.
type report struct {
	Env   map[string]string
	Nodes map[string]string
	Opens []string
}

// holder is what a container sees that was given these devices, and these nodes.
func holder(ids string, nodes ...string) report {
	r := report{Env: map[string]string{"ACCELERATOR_UNITS": ids, "ACCELERATOR_DEVICES": ids}, Nodes: map[string]string{}, Opens: []string{}}
	for _, node := range nodes { // dfl-port.N is 120:N
		number := "120:" + strings.TrimPrefix(node, "dfl-port.")
		r.Nodes[node] = number
		r.Opens = append(r.Opens, number)
	}
	return r
}

// pod is one that asks for so many of a resource, and holds them until it is deleted.
func (s *scene) pod(name, resourceName string, n int64) *corev1.Pod {
	none, grace, no := false, int64(1), false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &none, EnableServiceLinks: &no,
			TerminationGracePeriodSeconds: &grace, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: cluster.WorkloadImage, Args: []string{"hold"},
				Resources: corev1.ResourceRequirements{Limits: asks(resourceName, n)},
			}},
		},
	}
}

func asks(resourceName string, n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceName(resourceName): *resource.NewQuantity(n, resource.DecimalSI)}
}

// create makes a pod.
func (s *scene) create(pod *corev1.Pod) {
	_, err := s.Client.CoreV1().Pods(s.users).Create(s.ctx, pod, metav1.CreateOptions{})
	s.check(err)
}

// user makes a pod that asks for one of the story's resource.
func (s *scene) user(name string) { s.create(s.pod(name, s.resource, 1)) }

// look is a pod as it is now.
func (s *scene) look(name string) (*corev1.Pod, error) {
	return s.Client.CoreV1().Pods(s.users).Get(s.ctx, name, metav1.GetOptions{})
}

// comes waits until a pod is in a phase.
func (s *scene) comes(name string, phase corev1.PodPhase) {
	await(s, "pod "+name, func() (corev1.PodPhase, error) {
		pod, err := s.look(name)
		if err != nil {
			return "", err
		}
		if got := pod.Status.Phase; got == corev1.PodFailed && phase != got {
			s.failf("pod %s failed: %s: %s", name, pod.Status.Reason, pod.Status.Message)
		}
		return pod.Status.Phase, nil
	}, phase)
}

// waits waits until the scheduler has said that no node has what a pod wants.
func (s *scene) waits(name string) {
	await(s, "pod "+name, func() (string, error) {
		pod, err := s.look(name)
		if err != nil {
			return "", err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && strings.Contains(condition.Message, "Insufficient") {
				return condition.Reason, nil
			}
		}
		return "", errors.New("not judged yet")
	}, corev1.PodReasonUnschedulable)
}

// sees checks what the container of a running pod sees, as it said when it started
// for the last time.
func (s *scene) sees(name string, want report) {
	s.comes(name, corev1.PodRunning)
	await(s, "report of pod "+name, func() (report, error) { return s.said(name, "main") }, want)
}

// said is the last report of a container. A kubelet asks for ids in no order.
func (s *scene) said(name, container string) (report, error) {
	var r report
	text, err := s.Client.CoreV1().Pods(s.users).GetLogs(name, &corev1.PodLogOptions{Container: container}).DoRaw(s.ctx)
	if err != nil {
		return r, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	err = json.Unmarshal([]byte(lines[len(lines)-1]), &r)
	for name, ids := range r.Env {
		sorted := strings.Split(ids, ",")
		slices.Sort(sorted)
		r.Env[name] = strings.Join(sorted, ",")
	}
	return r, err
}

// health waits until pod status says this of the devices that a pod holds.
func (s *scene) health(name string, want map[string]string) {
	await(s, "allocatedResourcesStatus of "+name, func() (map[string]string, error) {
		pod, err := s.look(name)
		if err != nil {
			return nil, err
		}
		health := map[string]string{}
		for _, container := range pod.Status.ContainerStatuses {
			for _, allocated := range container.AllocatedResourcesStatus {
				for _, device := range allocated.Resources {
					health[string(device.ResourceID)] = string(device.Health)
				}
			}
		}
		return health, nil
	}, want)
}

// end deletes a pod and waits until it has gone.
func (s *scene) end(names ...string) {
	for _, name := range names {
		s.check(s.Client.CoreV1().Pods(s.users).Delete(s.ctx, name, metav1.DeleteOptions{}))
	}
	await(s, "pods gone", func() (int, error) {
		left := 0
		for _, name := range names {
			if _, err := s.look(name); err == nil {
				left++
			}
		}
		return left, nil
	}, 0)
}

// restarts is how often the container of a pod was started again.
func (s *scene) restarts(name string) (int32, error) {
	pod, err := s.look(name)
	if err != nil || len(pod.Status.ContainerStatuses) == 0 {
		return -1, err
	}
	return pod.Status.ContainerStatuses[0].RestartCount, nil
}
