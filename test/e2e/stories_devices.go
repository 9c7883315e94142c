package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

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
		{"catastrophic error of the FME", func(good bool) error {
			return s.node.SetFME(first, "errors/catfatal_errors", map[bool]string{true: "0x0", false: "0x400"}[good])
		}},
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

// power puts a card's port into power state AP6, or makes it good.
func (s *scene) power(address string) func(good bool) error {
	return func(good bool) error {
		return s.node.Set(address, 0, "power_state", map[bool]string{true: "0x0", false: "0x6"}[good])
	}
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
	s.step("it ends: a minute after it was given out, the device is gone")
	s.end("user")
	s.offers(s.resource, 0, 0)
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

// With CDI it is the runtime that puts nodes into containers, when each starts.
func cdi(s *scene) {
	s.plug(first, second)
	s.step("helm install with cdiDir")
	s.install("config.cdiDir=" + cluster.Root + "/cdi")
	s.offers(s.resource, 2, 2)
	s.step("a pod gets both nodes")
	pod := s.pod("user", s.resource, 2)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.create(pod)
	s.sees("user", holder(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	s.step("the cards come back under each other's numbers")
	s.pull(first)
	s.pull(second)
	s.plug(second, first)
	s.health("user", map[string]string{firstID: "Healthy", secondID: "Healthy"})
	s.end("user")
	s.step("a container that is started again has the number that its card has now")
	pod = s.pod("again", s.resource, 1)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.create(pod)
	s.sees("again", holder(firstID, "dfl-port.1"))
	s.pull(second)
	s.pull(first)
	s.plug(first)
	s.health("again", map[string]string{firstID: "Healthy"})
	s.killContainer("again")
	await(s, "container started again", func() (int32, error) { return s.restarts("again") }, 1)
	s.sees("again", holder(firstID, "dfl-port.0"))
	s.step("helm uninstall takes the spec away")
	s.uninstall()
	left, err := filepath.Glob(cluster.Root + "/cdi/*.json")
	s.check(err)
	same(s, "specs", left, nil)
	s.check(os.RemoveAll(cluster.Root + "/cdi"))
}
