package main

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// simulate follows the steps in docs/without-hardware.md.
func simulate(s *scene) {
	s.resource = "b-com.com/accelerator"
	s.step("simulate DIR --board two-ports")
	if out := s.simulate("--board", "two-ports"); !strings.Contains(out, "3b:00.0-p1 ") {
		s.failf("output of simulate: found no second port:\n%s", out)
	}
	s.step("helm install with simulatedNode: the node advertises both ports")
	s.install("config.recoveryHold=10s")
	s.awaitAdvertised(s.resource, 2, 2)
	s.step("a pod gets a device node, whose number has no driver")
	s.user("one")
	s.reachesPhase("one", corev1.PodRunning)
	held := must(s.heldDevices(s.kubelet()))
	if len(held["one/main"]) != 1 {
		s.failf("held devices: found %v, want one of pod one", held)
	}
	mine := held["one/main"][0]
	node := map[string]string{"3b:00.0": "dfl-port.0", "3b:00.0-p1": "dfl-port.1"}[mine]
	s.hasReport("one", reportOf(mine, node))
	s.step("break: unhealthy at once, also in pod status")
	s.simulate("break", mine)
	s.awaitAdvertised(s.resource, 2, 1)
	s.health("one", map[string]string{mine: "Unhealthy"})
	s.hasReasons(map[string][]string{mine: {"port-ap6"}})
	s.step("heal: healthy after the hold")
	s.simulate("heal", mine)
	s.awaitAdvertised(s.resource, 2, 2)
	s.health("one", map[string]string{mine: "Healthy"})
	s.step("plug another board, and pull it")
	s.simulate("plug", "5e:00.0", "--board", "vf")
	s.awaitAdvertised(s.resource, 4, 4)
	s.simulate("pull", "5e:00.0")
	s.awaitAdvertised(s.resource, 2, 2)
	s.step("pull: the free port is removed, the pod's port is Unhealthy until the pod ends")
	s.simulate("pull", "3b:00.0")
	s.awaitAdvertised(s.resource, 1, 0)
	s.health("one", map[string]string{mine: "Unhealthy"})
	s.deletePods("one")
	s.awaitAdvertisedSoon(s.resource, 0, 0)
}
