package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// specs is the directory for CDI specs.
const specs = cluster.Root + "/cdi"

// podGetsOne takes a user's first steps with the chart's default values: pods get devices, and a pod that is waiting
// starts when a card is plugged in.
func podGetsOne(s *scene) {
	s.resource = "b-com.com/accelerator"
	s.plug(first)
	s.step("helm install")
	s.install("config.resourceName="+s.resource, "config.recoveryHold=10s", "minReadySeconds=5")
	s.step("the node advertises its card")
	s.awaitAdvertised(s.resource, 1, 1)
	s.step("a pod that requests one device gets it")
	s.userGets("one", firstID, "dfl-port.0")
	s.step("the next pod is unschedulable")
	s.user("two")
	s.unschedulable("two")
	s.step("a card is plugged: the pod starts")
	s.plug(second)
	s.awaitAdvertised(s.resource, 2, 2)
	s.hasReport("two", reportOf(secondID, "dfl-port.1"))
	s.step("the command devices shows the holders")
	var devices []struct {
		ID, Health string
		Holder     []string
	}
	s.check(json.Unmarshal([]byte(s.exec("devices", "-o", "json")), &devices))
	holders := map[string][]string{}
	for _, d := range devices {
		holders[d.ID+" "+d.Health] = d.Holder
	}
	same(s, "holders", holders, map[string][]string{firstID + " healthy": {"default/one/main"}, secondID + " healthy": {"default/two/main"}})
	s.step("kubectl logs: JSON lines, with the same events")
	s.logged("device.added", line{"device": secondID})
	s.logged("allocate.served", line{"resource": s.resource})
	s.step("both pods end: both cards are free")
	s.deletePods("one", "two")
	s.create(s.pod("both", s.resource, 2))
	s.hasReport("both", reportOf(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
}

// health shows that an unhealthy device immediately becomes unallocatable, and that a device that has recovered becomes
// allocatable after the recovery hold.
func health(s *scene) {
	s.begin(first, second)
	for _, reason := range []string{"power-throttled", "fme-fatal"} {
		s.step("%s: allocatable falls, capacity stays", reason)
		s.hardware(func(n *simnode.Node) error { return n.Break(first, reason) })
		s.awaitAdvertised(s.resource, 2, 1)
		s.step("it heals: allocatable is back after the hold")
		s.healCard(first)
		s.awaitAdvertised(s.resource, 2, 2)
	}
	s.step("all are unhealthy: allocatable is 0, capacity stays, a pod is unschedulable")
	s.breakCard(first)
	s.breakCard(second)
	s.awaitAdvertised(s.resource, 2, 0)
	s.wait(time.Second) // the scheduler sees the new node status a little later
	s.user("user")
	s.unschedulable("user")
	s.step("one is healthy: the pod gets it")
	s.healCard(second)
	s.hasReport("user", reportOf(secondID, "dfl-port.1"))
	s.step("the pod's device breaks and heals: pod status follows")
	s.health("user", map[string]string{secondID: "Healthy"})
	s.breakCard(second)
	s.health("user", map[string]string{secondID: "Unhealthy"})
	s.healCard(second)
	s.health("user", map[string]string{secondID: "Healthy"})
}

// removedInUse pulls a card while a pod holds it. The card stays listed as unhealthy until the pod has ended.
func removedInUse(s *scene) {
	s.begin(first, second)
	s.userGets("user", firstID, "dfl-port.0")
	s.step("the free card is pulled: it is removed at once")
	s.pullCard(second)
	s.awaitAdvertised(s.resource, 1, 1)
	s.step("the pod's card is pulled: Unhealthy in pod status, still in capacity")
	s.pullCard(first)
	s.health("user", map[string]string{firstID: "Unhealthy"})
	s.awaitAdvertised(s.resource, 1, 0)
	s.logged("device.tombstone", line{"device": firstID})
	s.step("the pod keeps running")
	s.reachesPhase("user", corev1.PodRunning)
	s.step("the pod ends: the device is removed within %v", soon)
	s.deletePods("user")
	s.awaitAdvertisedSoon(s.resource, 0, 0)
	s.step("the card is plugged again: the next pod gets it")
	s.plug(first)
	s.userGets("next", firstID, "dfl-port.0")
	s.step("a card that is pulled and plugged while the pod holds it is Healthy again")
	s.pullCard(first)
	s.health("next", map[string]string{firstID: "Unhealthy"})
	s.plug(first)
	s.health("next", map[string]string{firstID: "Healthy"})
	s.awaitAdvertised(s.resource, 1, 1)
}

// numberReused pulls a card that a pod holds, and plugs in another card, which gets the first card's device number. The
// pod's container could therefore open the other card, so no other pod gets that card while the first pod is running.
func numberReused(s *scene, values ...string) {
	s.plug(first)
	s.install(values...)
	s.awaitAdvertised(s.resource, 1, 1)
	s.userGets("one", firstID, "dfl-port.0")
	s.step("its card is pulled, and another card is plugged, which gets the same device number")
	s.pullCard(first)
	s.awaitAdvertised(s.resource, 1, 0)
	s.always(0, func() {
		s.plug(second)
		same(s, "number of the other card", s.portNode(second), "dfl-port.0")
		s.hasReasons(map[string][]string{firstID: {"removed-in-use"}, secondID: {"node-in-use"}})
		s.awaitAdvertised(s.resource, 2, 0)
		s.step("a second pod is unschedulable")
		s.user("two")
		s.unschedulable("two")
		s.step("the first card is back under another number")
		s.plug(first)
		same(s, "number of the first card", s.portNode(first), "dfl-port.1")
		s.hasReasons(map[string][]string{firstID: {"node-changed"}, secondID: {"node-in-use"}})
		s.health("one", map[string]string{firstID: "Unhealthy"})
	})
	s.step("kubectl rollout restart: the next daemon has the same reasons")
	s.always(0, func() {
		old := s.daemon().Name
		for _, command := range []string{"restart", "status"} {
			s.must("kubectl", "--namespace", namespace, "rollout", command, "daemonset", "--selector", selector)
		}
		s.replaces(old)
		s.hasReasons(map[string][]string{firstID: {"node-changed"}, secondID: {"node-in-use"}})
		s.awaitAdvertised(s.resource, 2, 0)
	})
	s.unschedulable("two")
	s.step("the first pod ends: the second one gets a device and its device node")
	s.deletePods("one")
	s.awaitAdvertisedSoon(s.resource, 2, 2)
	s.reachesPhase("two", corev1.PodRunning)
	kubelet := s.kubelet()
	held := must(s.heldDevices(kubelet))
	nodes := map[string]string{firstID: "dfl-port.1", secondID: "dfl-port.0"}
	if len(held) != 1 || len(held["two/main"]) != 1 {
		s.failf("held devices: found %v, want one of pod two", held)
	}
	id := held["two/main"][0]
	s.hasReport("two", reportOf(id, nodes[id]))
	s.uninstall()
	s.check(os.RemoveAll(specs))
}

// cdi installs the chart with a CDI directory. The container runtime then adds the device nodes whenever it starts a
// container, so a restarted container gets its card's current device number.
func cdi(s *scene) {
	s.plug(first, second)
	s.step("helm install with cdiDir")
	s.install("config.cdiDir=" + specs)
	s.awaitAdvertised(s.resource, 2, 2)
	s.step("a pod gets both device nodes")
	s.create(restarting(s.pod("user", s.resource, 2)))
	s.hasReport("user", reportOf(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	s.step("the cards return with exchanged device numbers: unhealthy until the pod has ended")
	s.pullCard(first)
	s.pullCard(second)
	s.plug(second, first)
	s.hasReasons(map[string][]string{firstID: {"node-changed"}, secondID: {"node-changed"}})
	s.health("user", map[string]string{firstID: "Unhealthy", secondID: "Unhealthy"})
	s.deletePods("user")
	s.awaitAdvertisedSoon(s.resource, 2, 2)
	s.step("a restarted container has the current device number of its card")
	s.create(restarting(s.pod("again", s.resource, 1)))
	s.hasReport("again", reportOf(firstID, "dfl-port.1"))
	s.pullCard(second)
	s.pullCard(first)
	s.plug(first)
	s.hasReasons(map[string][]string{firstID: {"node-changed"}})
	s.restartsWith("again", reportOf(firstID, "dfl-port.0"), 1)
	s.step("helm uninstall removes the CDI spec")
	s.uninstall()
	left := must(filepath.Glob(specs + "/*.json"))
	same(s, "specs", left, nil)
	s.check(os.RemoveAll(specs))
}
