package main

import (
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// kubeletRestarts restarts the kubelet twice. The second time, a card is pulled while the kubelet is down.
func kubeletRestarts(s *scene) {
	s.begin(first, second)
	s.userGets("user", firstID, "dfl-port.0")
	s.step("the kubelet restarts: the device manager has the devices again")
	kubelet := s.kubelet()
	s.restartKubelet()
	await(s, "allocatable", func() (int64, error) { return s.allocatable(s.ctx, kubelet) }, 2)
	s.step("the pod still has its device")
	s.keepsDevices("user", firstID)
	s.step("a second pod gets the other device")
	s.userGets("second", secondID, "dfl-port.1")
	s.deletePods("second")
	s.step("the pod's card is pulled while the kubelet is down")
	s.check(s.StopKubelet())
	s.pullCard(first)
	s.check(s.StartKubelet())
	s.health("user", map[string]string{firstID: "Unhealthy"})
	s.awaitAdvertised(s.resource, 2, 1)
	s.step("the pod ends: the device is removed within %v", soon)
	s.deletePods("user")
	s.awaitAdvertisedSoon(s.resource, 1, 1)
}

// daemonRestarts shows that pods keep their devices when the daemon restarts, even together with the kubelet.
func daemonRestarts(s *scene) {
	s.begin(first, second)
	s.userGets("user", firstID, "dfl-port.0")
	s.step("the pod of the daemon is deleted")
	s.restartDaemon()
	s.awaitAdvertised(s.resource, 2, 2)
	s.keepsDevices("user", firstID)
	s.step("the daemon is killed: the kubelet restarts its container")
	pid := s.daemonPID()
	s.check(syscall.Kill(pid, syscall.SIGKILL))
	await(s, "daemon started again", func() (int32, error) { return s.daemon().Status.ContainerStatuses[0].RestartCount, nil }, 1)
	s.awaitAdvertised(s.resource, 2, 2)
	s.keepsDevices("user", firstID)
	s.step("kubelet and daemon restart at once")
	s.check(s.StopKubelet())
	s.check(syscall.Kill(s.daemonPID(), syscall.SIGKILL))
	s.check(s.StartKubelet())
	await(s, "daemon started again", func() (int32, error) { return s.daemon().Status.ContainerStatuses[0].RestartCount, nil }, 2)
	s.awaitAdvertised(s.resource, 2, 2)
	s.keepsDevices("user", firstID)
	s.step("a pod gets the free card, and no pod the other one")
	s.userGets("second", secondID, "dfl-port.1")
	s.user("third")
	s.unschedulable("third")
}

// keepsDevices checks that a pod is running, hasn't been restarted, and holds these devices.
func (s *scene) keepsDevices(name, ids string) {
	s.reachesPhase(name, corev1.PodRunning)
	n := must(s.restarts(name))
	same(s, "restarts of "+name, n, 0)
	states := map[string]string{}
	for _, id := range strings.Split(ids, ",") {
		states[id] = "Healthy"
	}
	s.health(name, states)
}

// upgrade upgrades the release to another version and to other settings, and then rolls it back. With surge, the
// devices stay allocatable throughout.
func upgrade(s *scene) {
	s.plug(first, second)
	s.step("helm install")
	s.install("minReadySeconds=5")
	s.awaitAdvertised(s.resource, 2, 2)
	s.userGets("user", firstID, "dfl-port.0")
	for _, tt := range []struct {
		name string
		do   func()
	}{
		{"helm upgrade to the next version", func() { s.upgradeTo("image.tag=" + nextVersion) }},
		{"helm upgrade to other settings", func() { s.upgradeTo("config.logLevel=debug") }},
		{"helm rollback to the first", func() {
			old := s.daemon().Name
			s.mustHelm("rollback", "1", "--wait", "--timeout", "1m")
			s.replaces(old)
		}},
	} {
		s.step("%s", tt.name)
		s.always(2, tt.do)
		s.keepsDevices("user", firstID)
	}
	s.step("helm upgrade whose new daemon is killed repeatedly: the old one keeps running")
	s.crashNewDaemon()
	s.keepsDevices("user", firstID)
	s.step("helm upgrade without surge: a gap, which surge prevents")
	seen := s.sampled(2, func() {
		s.upgradeTo("podLabels.a=b", "updateStrategy.rollingUpdate.maxSurge=0", "updateStrategy.rollingUpdate.maxUnavailable=1")
		s.awaitAdvertised(s.resource, 2, 2)
	})
	if seen.Kubelet.Less == 0 {
		s.failf("found no gap, want one: %+v", seen)
	}
	s.step("  of %.1f s", seen.Kubelet.Gap.Seconds())
	s.keepsDevices("user", firstID)
	s.step("helm uninstall: the pod keeps running, allocatable is 0")
	s.uninstall()
	s.awaitAdvertised(s.resource, 2, 0)
	s.reachesPhase("user", corev1.PodRunning)
}

// crashNewDaemon starts an upgrade, and kills the new daemon twice, each time as soon as it is ready. The old daemon
// must stay until the new one has been ready for minReadySeconds.
func (s *scene) crashNewDaemon() {
	old := s.daemon().Name
	s.always(2, func() {
		s.mustHelm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", "image.tag="+nextVersion)
		killed := map[string]bool{} // by container ID
		await(s, "new daemon ready and killed", func() (int, error) {
			pods, err := s.daemons()
			if err != nil {
				return 0, err
			}
			for _, pod := range pods {
				if pod.Name == old || !ready(pod) || killed[pod.Status.ContainerStatuses[0].ContainerID] || len(killed) == 2 {
					continue
				}
				container := pod.Status.ContainerStatuses[0].ContainerID
				s.check(syscall.Kill(s.pid(container), syscall.SIGKILL))
				killed[container] = true
			}
			return len(killed), nil
		}, 2)
		s.replaces(old)
	})
}

// brokenUpgrade shows that the old pod keeps running after an upgrade that doesn't work.
func brokenUpgrade(s *scene) {
	s.begin(first)
	old := s.daemon().Name
	for _, tt := range []struct{ name, value string }{
		{"an image that does not exist", "image.tag=missing"},
		{"settings that the daemon refuses", "config.health.severity.no-such-reason=fatal"},
	} {
		s.step("helm upgrade to %s: the old daemon keeps running", tt.name)
		s.always(1, func() {
			_, err := s.helm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", tt.value, "--wait", "--timeout", "10s")
			s.refused("helm upgrade", err)
		})
		s.step("helm rollback")
		s.mustHelm("rollback", "1", "--wait", "--timeout", "1m")
		same(s, "daemon", s.daemon().Name, old)
	}
}
