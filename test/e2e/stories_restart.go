package main

import (
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// The kubelet is stopped and started again, once while a card is pulled.
func kubeletRestarts(s *scene) {
	s.plug(first, second)
	s.install()
	s.offers(s.resource, 2, 2)
	s.user("user")
	s.sees("user", holder(firstID, "dfl-port.0"))
	s.step("the kubelet restarts: the device manager has the devices again")
	kubelet := s.kubelet()
	s.check(s.StopKubelet())
	s.check(s.StartKubelet())
	await(s, "allocatable", func() (int64, error) { return s.allocatable(s.ctx, kubelet) }, 2)
	s.step("the pod still has its own")
	s.keeps("user", firstID)
	s.step("a second pod gets the other one")
	s.user("second")
	s.sees("second", holder(secondID, "dfl-port.1"))
	s.end("second")
	s.step("the pod's card is pulled while the kubelet is down")
	s.check(s.StopKubelet())
	s.pull(first)
	s.check(s.StartKubelet())
	s.health("user", map[string]string{firstID: "Unhealthy"})
	s.offers(s.resource, 2, 1)
	s.step("the pod ends: the device is gone within %v", soon)
	s.end("user")
	s.offersSoon(s.resource, 1, 1)
}

// The daemon ends and another one begins; pods keep what they have.
func daemonRestarts(s *scene) {
	s.plug(first, second)
	s.install()
	s.offers(s.resource, 2, 2)
	s.user("user")
	s.sees("user", holder(firstID, "dfl-port.0"))
	s.step("its pod is deleted")
	s.restartDaemon()
	s.offers(s.resource, 2, 2)
	s.keeps("user", firstID)
	s.step("it is killed: the kubelet starts its container again")
	pid := s.daemonPID()
	s.check(syscall.Kill(pid, syscall.SIGKILL))
	await(s, "daemon started again", func() (int32, error) { return s.daemon().Status.ContainerStatuses[0].RestartCount, nil }, 1)
	s.offers(s.resource, 2, 2)
	s.keeps("user", firstID)
	s.step("kubelet and daemon at once")
	s.check(s.StopKubelet())
	s.check(syscall.Kill(s.daemonPID(), syscall.SIGKILL))
	s.check(s.StartKubelet())
	await(s, "daemon started again", func() (int32, error) { return s.daemon().Status.ContainerStatuses[0].RestartCount, nil }, 2)
	s.offers(s.resource, 2, 2)
	s.keeps("user", firstID)
	s.step("a pod gets the card that is free, and none the other")
	s.user("second")
	s.sees("second", holder(secondID, "dfl-port.1"))
	s.user("third")
	s.waits("third")
}

// keeps checks that a pod runs, was not started again, and holds these devices.
func (s *scene) keeps(name, ids string) {
	s.comes(name, corev1.PodRunning)
	n, err := s.restarts(name)
	s.check(err)
	same(s, "restarts of "+name, n, 0)
	states := map[string]string{}
	for _, id := range strings.Split(ids, ",") {
		states[id] = "Healthy"
	}
	s.health(name, states)
}

// helm upgrade to another version, to other settings, and back.
func upgrade(s *scene) {
	s.plug(first, second)
	s.step("helm install")
	s.install("minReadySeconds=5")
	s.offers(s.resource, 2, 2)
	s.user("user")
	s.sees("user", holder(firstID, "dfl-port.0"))
	for _, tt := range []struct {
		what string
		do   func() error
	}{
		{"helm upgrade to the next version", func() error {
			_, err := s.helm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", "image.tag="+nextVersion, "--wait", "--timeout", "1m")
			return err
		}},
		{"helm upgrade to other settings", func() error {
			_, err := s.helm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", "config.logLevel=debug", "--wait", "--timeout", "1m")
			return err
		}},
		{"helm rollback to the first", func() error {
			_, err := s.helm("rollback", "1", "--wait", "--timeout", "1m")
			return err
		}},
	} {
		s.step("%s", tt.what)
		seen := s.sampled(2, func() {
			old := s.daemon().Name
			s.check(tt.do())
			await(s, "another daemon", func() (bool, error) { return s.daemon().Name != old, nil }, true)
		})
		s.step("  never less than all in %d samples of node status, %d of the device manager", seen.Node.All, seen.Kubelet.All)
		if seen.Node.Less+seen.Kubelet.Less > 0 {
			s.failf("less than all was allocatable: %+v", seen)
		}
		s.keeps("user", firstID)
	}
	s.step("helm upgrade whose new daemon is killed again and again: the old one goes on")
	s.crashes()
	s.keeps("user", firstID)
	s.step("helm upgrade without surge: a gap is seen, for that is what surge is for")
	seen := s.sampled(2, func() {
		old := s.daemon().Name
		_, err := s.helm("upgrade", s.chart(), "--reset-then-reuse-values", "--wait", "--timeout", "1m", "--set", "podLabels.a=b",
			"--set", "updateStrategy.rollingUpdate.maxSurge=0", "--set", "updateStrategy.rollingUpdate.maxUnavailable=1")
		s.check(err)
		await(s, "another daemon", func() (bool, error) { return s.daemon().Name != old, nil }, true)
		s.offers(s.resource, 2, 2)
	})
	if seen.Kubelet.Less == 0 {
		s.failf("no gap was seen: %+v", seen)
	}
	s.step("  of %.1f s", seen.Kubelet.Gap.Seconds())
	s.keeps("user", firstID)
	s.step("helm uninstall: the pod goes on, the node has 0")
	s.uninstall()
	s.offers(s.resource, 2, 0)
	s.comes("user", corev1.PodRunning)
}

// crashes upgrades, and kills the new daemon as soon as it is ready, twice: the old one
// stays until the new one has been ready for minReadySeconds.
func (s *scene) crashes() {
	old := s.daemon().Name
	seen := s.sampled(2, func() {
		_, err := s.helm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", "image.tag="+nextVersion)
		s.check(err)
		killed := map[string]bool{} // by the container's id
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
		await(s, "another daemon", func() (bool, error) { return s.daemon().Name != old, nil }, true)
	})
	if seen.Node.Less+seen.Kubelet.Less > 0 {
		s.failf("less than all was allocatable: %+v", seen)
	}
}

// An upgrade to what cannot work leaves the old pod where it is.
func brokenUpgrade(s *scene) {
	s.plug(first)
	s.install()
	s.offers(s.resource, 1, 1)
	old := s.daemon().Name
	for _, tt := range []struct{ what, value string }{
		{"an image that is not there", "image.tag=missing"},
		{"settings that the daemon refuses", "config.health.severity.no-such-reason=fatal"},
	} {
		s.step("helm upgrade to %s: the old daemon goes on", tt.what)
		seen := s.sampled(1, func() {
			_, err := s.helm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", tt.value, "--wait", "--timeout", "10s")
			s.refused("helm upgrade", err)
		})
		if seen.Node.Less+seen.Kubelet.Less > 0 {
			s.failf("less than all was allocatable: %+v", seen)
		}
		s.step("helm rollback")
		_, err := s.helm("rollback", "1", "--wait", "--timeout", "1m")
		s.check(err)
		same(s, "daemon", s.daemon().Name, old)
	}
}
