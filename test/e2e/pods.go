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

// report lists the devices that a container has access to, as printed by test/e2e/workload.
type report struct {
	Env   map[string]string
	Nodes map[string]string
	Opens []string
	Files map[string]string
}

// reportOf returns the report of a container that has these devices and device nodes.
func reportOf(ids string, nodes ...string) report {
	r := report{Env: map[string]string{"ACCELERATOR_UNITS": ids, "ACCELERATOR_DEVICES": ids}, Nodes: map[string]string{}, Opens: []string{}}
	for _, node := range nodes { // dfl-port.N is 120:N
		number := "120:" + strings.TrimPrefix(node, "dfl-port.")
		r.Nodes[node] = number
		r.Opens = append(r.Opens, number)
	}
	return r
}

// pod returns a pod that requests n devices of a resource. The pod holds them until it is deleted.
func (s *scene) pod(name, resourceName string, n int64) *corev1.Pod {
	none, grace, no := false, int64(1), false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &none, EnableServiceLinks: &no,
			TerminationGracePeriodSeconds: &grace, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: cluster.WorkloadImage, Args: []string{"hold"},
				Resources: corev1.ResourceRequirements{Limits: units(resourceName, n)},
			}},
		},
	}
}

// restarting makes the kubelet restart a pod's containers when they end, and returns the pod.
func restarting(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return pod
}

// units returns resource limits for n devices.
func units(resourceName string, n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceName(resourceName): *resource.NewQuantity(n, resource.DecimalSI)}
}

// create creates a pod.
func (s *scene) create(pod *corev1.Pod) {
	must(s.Client.CoreV1().Pods(s.users).Create(s.ctx, pod, metav1.CreateOptions{}))
}

// user creates a pod that requests one device through the story's resource.
func (s *scene) user(name string) { s.create(s.pod(name, s.resource, 1)) }

// userGets is like user, but also waits until the pod has the device with this ID and device node.
func (s *scene) userGets(name, id, node string) {
	s.user(name)
	s.hasReport(name, reportOf(id, node))
}

// readPod returns a pod from the API server.
func (s *scene) readPod(name string) (*corev1.Pod, error) {
	return s.Client.CoreV1().Pods(s.users).Get(s.ctx, name, metav1.GetOptions{})
}

// reachesPhase waits until a pod is in a phase.
func (s *scene) reachesPhase(name string, phase corev1.PodPhase) {
	await(s, "pod "+name, func() (corev1.PodPhase, error) {
		pod, err := s.readPod(name)
		if err != nil {
			return "", err
		}
		if got := pod.Status.Phase; got == corev1.PodFailed && phase != got {
			s.failf("pod %s failed: %s: %s", name, pod.Status.Reason, pod.Status.Message)
		}
		return pod.Status.Phase, nil
	}, phase)
}

// unschedulable waits until the scheduler says that no node has enough devices for a pod.
func (s *scene) unschedulable(name string) { s.notScheduled(name, "Insufficient") }

// pending waits until the scheduler says that no node has the devices that a pod's claims request.
func (s *scene) pending(name string) { s.notScheduled(name, "cannot allocate all claims") }

// notScheduled waits until the scheduler says, in these words, that it hasn't found a node for a pod.
func (s *scene) notScheduled(name, words string) {
	await(s, "pod "+name, func() (bool, error) {
		pod, err := s.readPod(name)
		if err != nil {
			return false, err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return strings.Contains(condition.Message, words), nil
			}
		}
		return false, errors.New("the scheduler has not tried the pod yet")
	}, true)
}

// hasReport waits until a pod is running and its container's last report equals want.
func (s *scene) hasReport(name string, want report) {
	s.reachesPhase(name, corev1.PodRunning)
	await(s, "report of pod "+name, func() (report, error) { return s.lastReport(name, "main") }, want)
}

// anyReport waits until the container of a running pod has printed a report, and returns the report.
func (s *scene) anyReport(name string) report { return s.reportIn(name, "main") }

func (s *scene) reportIn(name, container string) report {
	var r report
	await(s, "report of "+name+"/"+container, func() (_ bool, err error) {
		r, err = s.lastReport(name, container)
		return err == nil, err
	}, true)
	return r
}

// lastReport returns a container's last report. It sorts the IDs, because the kubelet passes them in random order.
func (s *scene) lastReport(name, container string) (report, error) {
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

// health waits until a pod's status shows this health for its devices.
func (s *scene) health(name string, want map[string]string) {
	await(s, "allocatedResourcesStatus of "+name, func() (map[string]string, error) {
		pod, err := s.readPod(name)
		if err != nil {
			return nil, err
		}
		health := map[string]string{}
		for _, container := range pod.Status.ContainerStatuses {
			for _, allocated := range container.AllocatedResourcesStatus {
				for _, device := range allocated.Resources { // for a claim's device, the ID is CLAIM-REQUEST-DEVICE
					_, id := cutDevice(device.ResourceID)
					health[string(id)] = string(device.Health)
				}
			}
		}
		return health, nil
	}, want)
}

// deletePods deletes pods, and waits until they are gone.
func (s *scene) deletePods(names ...string) {
	for _, name := range names {
		s.check(s.Client.CoreV1().Pods(s.users).Delete(s.ctx, name, metav1.DeleteOptions{}))
	}
	await(s, "number of pods left", func() (int, error) {
		left := 0
		for _, name := range names {
			if _, err := s.readPod(name); err == nil {
				left++
			}
		}
		return left, nil
	}, 0)
}

// restarts returns how often a pod's container has been restarted.
func (s *scene) restarts(name string) (int32, error) {
	pod, err := s.readPod(name)
	if err != nil || len(pod.Status.ContainerStatuses) == 0 {
		return -1, err
	}
	return pod.Status.ContainerStatuses[0].RestartCount, nil
}
