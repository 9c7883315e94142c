package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// specs is the directory of CDI specs, in stories with CDI.
const specs = cluster.Root + "/cdi"

// What everybody does first: the chart with its defaults.
func podGetsOne(s *scene) {
	s.resource = "b-com.com/accelerator"
	s.plug(first)
	s.step("helm install")
	s.install("config.resourceName="+s.resource, "config.recoveryHold=10s", "minReadySeconds=5")
	s.step("the node advertises its card")
	s.offers(s.resource, 1, 1)
	s.step("a pod that asks for one gets it")
	s.user("one")
	s.sees("one", holder(firstID, "dfl-port.0"))
	s.step("the next one waits")
	s.user("two")
	s.waits("two")
	s.step("a card is plugged: it starts")
	s.plug(second)
	s.offers(s.resource, 2, 2)
	s.sees("two", holder(secondID, "dfl-port.1"))
	s.step("devices knows who holds what")
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
	s.step("kubectl logs: JSON lines, which say so, too")
	s.logged("device.added", line{"device": secondID})
	s.logged("allocate.served", line{"resource": s.resource})
	s.step("both pods end: both cards are free")
	s.end("one", "two")
	s.create(s.pod("both", s.resource, 2))
	s.sees("both", holder(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
}

// Bad news reach the node, and good news when they have held.
func health(s *scene) {
	s.plug(first, second)
	s.install()
	s.offers(s.resource, 2, 2)
	for _, tt := range []struct {
		what string
		set  func(good bool) error
	}{
		{"power state AP6", s.power(first)},
		{"catastrophic error of the FME", s.breaks(first, "fme-fatal")},
	} {
		s.step("%s: allocatable falls, capacity stays", tt.what)
		s.check(tt.set(false))
		s.offers(s.resource, 2, 1)
		s.step("it is over: allocatable is back after the hold")
		s.check(tt.set(true))
		s.offers(s.resource, 2, 2)
	}
	s.step("all are bad: allocatable is 0, capacity stays, a pod waits")
	s.check(s.power(first)(false))
	s.check(s.power(second)(false))
	s.offers(s.resource, 2, 0)
	s.user("user")
	s.waits("user")
	s.step("one is well: the pod gets that one")
	s.check(s.power(second)(true))
	s.sees("user", holder(secondID, "dfl-port.1"))
	s.step("what it holds breaks: pod status says so, and then that it is well")
	s.health("user", map[string]string{secondID: "Healthy"})
	s.check(s.power(second)(false))
	s.health("user", map[string]string{secondID: "Unhealthy"})
	s.check(s.power(second)(true))
	s.health("user", map[string]string{secondID: "Healthy"})
}

// A card is pulled that a pod holds.
func removedInUse(s *scene) {
	s.plug(first, second)
	s.install()
	s.offers(s.resource, 2, 2)
	s.user("user")
	s.sees("user", holder(firstID, "dfl-port.0"))
	s.step("the other card is pulled: it is gone at once")
	s.pull(second)
	s.offers(s.resource, 1, 1)
	s.step("the pod's card is pulled: pod status says Unhealthy, it stays in capacity")
	s.pull(first)
	s.health("user", map[string]string{firstID: "Unhealthy"})
	s.offers(s.resource, 1, 0)
	s.logged("device.tombstone", line{"device": firstID})
	s.step("the pod goes on meanwhile")
	s.comes("user", corev1.PodRunning)
	s.step("it ends: the device is gone within %v", soon)
	s.end("user")
	s.offersSoon(s.resource, 0, 0)
	s.step("the card is back: the next pod gets it")
	s.plug(first)
	s.user("next")
	s.sees("next", holder(firstID, "dfl-port.0"))
	s.step("a card that is pulled and back while the pod holds it is Healthy again")
	s.pull(first)
	s.health("next", map[string]string{firstID: "Unhealthy"})
	s.plug(first)
	s.health("next", map[string]string{firstID: "Healthy"})
	s.offers(s.resource, 1, 1)
}

// A pod holds a card that is pulled, and the next card gets its number, which the first
// pod's container may open: no other pod gets that card as long as the first pod runs.
func numbersAgain(s *scene, values ...string) {
	s.plug(first)
	s.install(values...)
	s.offers(s.resource, 1, 1)
	s.user("one")
	s.sees("one", holder(firstID, "dfl-port.0"))
	s.step("its card is pulled, another one is plugged, which gets its number")
	s.pull(first)
	s.offers(s.resource, 1, 0)
	seen := s.sampled(0, func() {
		s.plug(second)
		same(s, "number of the other card", s.portNode(second), "dfl-port.0")
		s.reasons(map[string][]string{firstID: {"removed-in-use"}, secondID: {"node-in-use"}})
		s.offers(s.resource, 2, 0)
		s.step("a second pod waits")
		s.user("two")
		s.waits("two")
		s.step("the first card is back under another number")
		s.plug(first)
		same(s, "number of the first card", s.portNode(first), "dfl-port.1")
		s.reasons(map[string][]string{firstID: {"node-changed"}, secondID: {"node-in-use"}})
		s.health("one", map[string]string{firstID: "Unhealthy"})
	})
	same(s, "samples with a device that could be allocated", seen.Node.Less+seen.Kubelet.Less, 0)
	s.step("kubectl rollout restart: the next daemon says the same")
	seen = s.sampled(0, func() {
		old := s.daemon().Name
		for _, command := range []string{"restart", "status"} {
			_, err := s.Run(s.ctx, "kubectl", "--namespace", namespace, "rollout", command, "daemonset", "--selector", selector)
			s.check(err)
		}
		await(s, "another daemon", func() (bool, error) { return s.daemon().Name != old, nil }, true)
		s.reasons(map[string][]string{firstID: {"node-changed"}, secondID: {"node-in-use"}})
		s.offers(s.resource, 2, 0)
	})
	same(s, "samples with a device that could be allocated", seen.Node.Less+seen.Kubelet.Less, 0)
	s.waits("two")
	s.step("the first pod ends: the second one gets a device, with the node of that device")
	s.end("one")
	s.offersSoon(s.resource, 2, 2)
	s.comes("two", corev1.PodRunning)
	kubelet := s.kubelet()
	held, err := s.held(kubelet)
	s.check(err)
	nodes := map[string]string{firstID: "dfl-port.1", secondID: "dfl-port.0"}
	if len(held) != 1 || len(held["two/main"]) != 1 {
		s.failf("held: %v, want one device by pod two", held)
	}
	id := held["two/main"][0]
	s.sees("two", holder(id, nodes[id]))
	s.uninstall()
	s.check(os.RemoveAll(specs))
}

// With CDI it is the runtime that puts nodes into containers, when each starts.
func cdi(s *scene) {
	s.plug(first, second)
	s.step("helm install with cdiDir")
	s.install("config.cdiDir=" + specs)
	s.offers(s.resource, 2, 2)
	s.step("a pod gets both nodes")
	pod := s.pod("user", s.resource, 2)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.create(pod)
	s.sees("user", holder(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	s.step("the cards come back under each other's numbers: unhealthy until the pod has ended")
	s.pull(first)
	s.pull(second)
	s.plug(second, first)
	s.reasons(map[string][]string{firstID: {"node-changed"}, secondID: {"node-changed"}})
	s.health("user", map[string]string{firstID: "Unhealthy", secondID: "Unhealthy"})
	s.end("user")
	s.offersSoon(s.resource, 2, 2)
	s.step("a container that is started again has the number that its card has now")
	pod = s.pod("again", s.resource, 1)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.create(pod)
	s.sees("again", holder(firstID, "dfl-port.1"))
	s.pull(second)
	s.pull(first)
	s.plug(first)
	s.reasons(map[string][]string{firstID: {"node-changed"}})
	s.killContainer("again")
	await(s, "container started again", func() (int32, error) { return s.restarts("again") }, 1)
	s.sees("again", holder(firstID, "dfl-port.0"))
	s.step("helm uninstall takes the spec away")
	s.uninstall()
	left, err := filepath.Glob(specs + "/*.json")
	s.check(err)
	same(s, "specs", left, nil)
	s.check(os.RemoveAll(specs))
}
