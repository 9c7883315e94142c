package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The stories in this file cover the scenarios from Kubernetes' own device plugin tests (test/e2e_node) that need a
// container runtime.

// restartInPlace shows that a container keeps its device when it is restarted in place, without a call to Allocate.
func restartInPlace(s *scene) {
	s.begin(first, second)
	s.create(restarting(s.pod("user", s.resource, 1)))
	s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	uid := s.uid("user")
	s.step("its process is killed: the restarted container has the same device")
	s.restartsWith("user", reportOf(firstID, "dfl-port.0"), 1)
	s.step("another pod gets the other device")
	s.userGets("other", secondID, "dfl-port.1")
	s.step("the kubelet restarts: the same pods hold the same devices")
	kubelet := s.kubelet()
	s.restartKubelet()
	await(s, "held", func() (map[string][]string, error) { return s.heldDevices(kubelet) },
		map[string][]string{"user/main": {firstID}, "other/main": {secondID}})
	await(s, "restarts", func() (int32, error) { return s.restarts("user") }, 1)
	same(s, "pod", s.uid("user"), uid)
}

// withoutDaemon restarts the kubelet while no daemon is running. Running pods keep running, and still hold their
// devices when the daemon is back.
func withoutDaemon(s *scene) {
	s.begin(first)
	s.userGets("user", firstID, "dfl-port.0")
	s.step("helm uninstall, then the kubelet restarts: the pod keeps running")
	s.uninstall()
	s.restartKubelet()
	s.staysInPhase("user", corev1.PodRunning)
	s.step("helm install: the pod still holds its device")
	s.install()
	s.keepsDevices("user", firstID)
	s.awaitAdvertised(s.resource, 1, 1)
	s.user("next")
	s.unschedulable("next")
}

// succeeded shows that a restarted kubelet doesn't readmit a pod that has already succeeded.
func succeeded(s *scene) {
	s.begin(first)
	s.step("a pod succeeds, and is kept by a finalizer")
	pod := s.pod("job", s.resource, 1)
	pod.Finalizers = []string{"e2e.b-com.com/keep"}
	pod.Spec.Containers[0].Args = []string{"exit"}
	s.create(pod)
	s.reachesPhase("job", corev1.PodSucceeded)
	s.cleanups = append(s.cleanups, func() {
		must(s.Client.CoreV1().Pods(s.users).Patch(s.ctx, "job", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	})
	s.step("without a daemon, the kubelet restarts: the pod stays Succeeded")
	s.uninstall()
	s.restartKubelet()
	s.staysInPhase("job", corev1.PodSucceeded)
}

// orphan force-deletes a pod while the kubelet is down. When the kubelet is back, it ends the pod's containers, and the
// next pod gets the device.
func orphan(s *scene) {
	s.begin(first)
	s.userGets("user", firstID, "dfl-port.0")
	s.step("deleted with force while the kubelet is down: the kubelet starts and ends the containers")
	pod := must(s.readPod("user"))
	pid := s.pid(pod.Status.ContainerStatuses[0].ContainerID)
	s.check(s.StopKubelet())
	now := int64(0)
	s.check(s.Client.CoreV1().Pods(s.users).Delete(s.ctx, "user", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	s.check(s.StartKubelet())
	kubelet := s.kubelet()
	await(s, "held", func() (map[string][]string, error) { return s.heldDevices(kubelet) }, map[string][]string{})
	// Wait for the last process to end, because until then, the pod is active to the device manager.
	await(s, "container ended", func() (bool, error) {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root", pid))
		return err != nil, nil
	}, true)
	s.step("the next pod gets its device")
	s.userGets("next", firstID, "dfl-port.0")
}

// forced shows that a force-deleted pod keeps its device until its last process has ended.
func forced(s *scene) {
	s.begin(first)
	s.step("a pod that ignores SIGTERM has the only device, and another pod waits for it")
	stubborn := s.pod("user", s.resource, 1)
	stubborn.Spec.Containers[0].Args = []string{"stay"}
	s.create(stubborn)
	s.reachesPhase("user", corev1.PodRunning)
	pid := s.pid(must(s.readPod("user")).Status.ContainerStatuses[0].ContainerID)
	s.user("next")
	s.step("it is deleted with force: the next pod starts after its last process has ended")
	now := int64(0)
	s.check(s.Client.CoreV1().Pods(s.users).Delete(s.ctx, "user", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	await(s, "container of the next pod", func() (bool, error) {
		pod, err := s.readPod("next")
		if err != nil || len(pod.Status.ContainerStatuses) == 0 {
			return false, err
		}
		return pod.Status.ContainerStatuses[0].State.Running != nil, nil
	}, true)
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root", pid)); err == nil {
		s.failf("process %d of the deleted pod and the next pod have the device at the same time", pid)
	}
	waited := slices.ContainsFunc(s.logs(), func(l line) bool { return l["event"] == "allocate.served" && l["lasted_ms"] != nil })
	same(s, "the log says that Allocate waited", waited, true)
	s.step("a pod with a long grace period is deleted, and then with force: the next pod fails, and later pods wait")
	s.check(s.Client.CoreV1().Pods(s.users).Delete(s.ctx, "next", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	grace := int64(15)
	stubborn.Name, stubborn.ResourceVersion, stubborn.Spec.TerminationGracePeriodSeconds = "slow", "", &grace
	s.create(stubborn)
	s.reachesPhase("slow", corev1.PodRunning)
	pid = s.pid(must(s.readPod("slow")).Status.ContainerStatuses[0].ContainerID)
	s.check(s.Client.CoreV1().Pods(s.users).Delete(s.ctx, "slow", metav1.DeleteOptions{}))
	s.user("fails")
	s.check(s.Client.CoreV1().Pods(s.users).Delete(s.ctx, "slow", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	s.reachesPhase("fails", corev1.PodFailed)
	same(s, "reason", must(s.readPod("fails")).Status.Reason, "UnexpectedAdmissionError")
	s.awaitAdvertised(s.resource, 1, 0)
	s.user("later")
	s.unschedulable("later")
	s.reachesPhase("later", corev1.PodRunning)
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root", pid)); err == nil {
		s.failf("process %d of the deleted pod and the next pod have the device at the same time", pid)
	}
}

// initContainers shows that an init container's device is reused for a later container. A sidecar's device isn't,
// because the sidecar keeps running.
func initContainers(s *scene) {
	s.begin(first, second)
	s.step("init container, sidecar and main container: two devices for three")
	pod := s.pod("user", s.resource, 1)
	before, sidecar := pod.Spec.Containers[0], pod.Spec.Containers[0]
	before.Name, before.Args = "before", []string{"exit"}
	always := corev1.ContainerRestartPolicyAlways
	sidecar.Name, sidecar.RestartPolicy = "sidecar", &always
	pod.Spec.InitContainers = []corev1.Container{before, sidecar}
	s.create(pod)
	s.reachesPhase("user", corev1.PodRunning)
	units := map[string]string{}
	for _, name := range []string{"before", "sidecar", "main"} {
		units[name] = s.reportIn("user", name).Env["ACCELERATOR_UNITS"]
	}
	same(s, "device of the sidecar, want that of the init container", units["sidecar"], units["before"])
	if units["main"] == units["sidecar"] {
		s.failf("main container and sidecar both have %s, want different devices", units["main"])
	}
	kubelet := s.kubelet()
	held := must(s.heldDevices(kubelet))
	same(s, "held", held, map[string][]string{"user/sidecar": {units["sidecar"]}, "user/main": {units["main"]}})
}

// statusOfFailed shows that a pod's status lists its devices' health even if its container never starts.
func statusOfFailed(s *scene) {
	s.begin(first)
	s.step("a pod without image holds a device")
	pod := s.pod("user", s.resource, 1)
	pod.Spec.Containers[0].Image = "adp.e2e/missing:1"
	pod.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	s.create(pod)
	s.health("user", map[string]string{firstID: "Healthy"})
	s.step("the device breaks: Unhealthy in pod status")
	s.breakCard(first)
	s.health("user", map[string]string{firstID: "Unhealthy"})
}

// reboot ends all containers at once and restarts the kubelet, as a reboot would. It does this first with a daemon and
// then without one.
func reboot(s *scene) {
	s.begin(first, second)
	s.userGets("user", firstID, "dfl-port.0")
	s.step("with the daemon: the daemon registers, and a new pod gets a device")
	s.check(s.StopKubelet())
	s.check(s.EndPods(s.ctx))
	s.check(s.StartKubelet())
	await(s, "daemon started again", func() (bool, error) {
		return s.daemon().Status.ContainerStatuses[0].RestartCount > 0, nil
	}, true)
	s.awaitAdvertised(s.resource, 2, 2)
	s.user("new")
	s.reachesPhase("new", corev1.PodRunning)
	s.step("without the daemon: a pod that must restart is refused")
	pod := s.pod("again", s.resource, 1)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.deletePods("new")
	s.create(pod)
	s.reachesPhase("again", corev1.PodRunning)
	s.uninstall()
	s.check(s.StopKubelet())
	s.check(s.EndPods(s.ctx))
	s.check(s.StartKubelet())
	await(s, "pod again", func() (string, error) {
		pod, err := s.readPod("again")
		if err != nil {
			return "", err
		}
		return string(pod.Status.Phase) + " " + pod.Status.Reason, nil
	}, "Failed UnexpectedAdmissionError")
}

// restartKubelet restarts the kubelet and waits until it's serving requests again.
func (s *scene) restartKubelet() {
	s.check(s.StopKubelet())
	s.check(s.StartKubelet())
	kubelet := s.kubelet()
	await(s, "kubelet answers", func() (bool, error) {
		_, err := s.allocatable(s.ctx, kubelet)
		return err == nil, err
	}, true)
}

// staysInPhase checks for 15 s that a pod stays in a phase.
func (s *scene) staysInPhase(name string, phase corev1.PodPhase) {
	s.throughout(15*time.Second, func() {
		pod := must(s.readPod(name))
		same(s, "pod "+name, pod.Status.Phase, phase)
	})
}

// uid returns a pod's UID.
func (s *scene) uid(name string) types.UID {
	pod := must(s.readPod(name))
	return pod.UID
}
