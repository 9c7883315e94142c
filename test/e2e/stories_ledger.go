package main

import (
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// missing shows that a card that is gone after a reboot is reported as missing until it is found again or forgotten.
func missing(s *scene) {
	s.plug(first, second)
	s.step("helm install with events")
	s.install("events=true")
	s.awaitAdvertised(s.resource, 2, 2)
	s.step("reboot; meanwhile a card is pulled: log, Event and devices name it, and the other one is offered")
	s.check(s.StopKubelet())
	s.check(s.EndPods(s.ctx))
	s.pullCard(second)
	s.check(s.StartKubelet())
	await(s, "daemon started again", func() (bool, error) {
		return s.daemon().Status.ContainerStatuses[0].RestartCount > 0, nil
	}, true)
	s.awaitAdvertised(s.resource, 1, 1)
	s.logged("device.missing", line{"device": secondID, "level": "error"})
	s.hasEvent(aboutNode(), "DeviceMissing", corev1.EventTypeWarning, "FPGA device "+secondID+" has been missing since ")
	s.hasReasons(map[string][]string{secondID: {"missing"}})
	s.step("helm upgrade: still missing")
	s.upgradeTo("image.tag=" + nextVersion)
	s.logged("device.missing", line{"device": secondID})
	s.step("the card is found: it is offered, and no longer missing")
	s.plug(second)
	s.awaitAdvertised(s.resource, 2, 2)
	s.logged("device.returned", line{"device": secondID})
	s.hasReasons(map[string][]string{})
	s.step("a card that is cordoned before the reboot is not missing; a card that is forgotten is not missing either")
	s.exec("cordon", firstID, "--why", "repair", "--by", "alice")
	s.awaitAdvertised(s.resource, 2, 1)
	s.uninstall()
	s.pullCard(first)
	s.pullCard(second)
	s.install()
	s.logged("device.missing", line{"device": secondID})
	s.hasReasons(map[string][]string{secondID: {"missing"}})
	if printed := s.exec("forget", secondID, "--by", "alice"); !strings.HasPrefix(printed, secondID+" forgotten, which was missing since ") {
		s.failf("output of forget: found %q, want the card and since when it was missing", printed)
	}
	s.hasReasons(map[string][]string{})
	s.restartDaemon()
	s.throughout(soon, func() {
		for _, l := range s.logs() {
			if l["event"] == "device.missing" {
				s.failf("log: found %v, want no missing card", l)
			}
		}
	})
}

// quarantine shows that a card stays in quarantine even if the daemon is upgraded or killed, or uninstalled and
// installed again.
func quarantine(s *scene) {
	s.plug(first, second)
	s.step("a card turns too often: it is in quarantine")
	s.install("config.flapLimit=2", "minReadySeconds=5")
	s.awaitAdvertised(s.resource, 2, 2)
	flapping := s.flap()
	s.awaitAdvertised(s.resource, 2, 1)
	s.step("helm upgrade: the card is offered at no time")
	s.always(1, func() { s.upgradeTo("image.tag=" + nextVersion) })
	s.hasReasons(flapping)
	s.step("the daemon is killed")
	s.check(syscall.Kill(s.daemonPID(), syscall.SIGKILL))
	await(s, "daemon started again", func() (int32, error) { return s.daemon().Status.ContainerStatuses[0].RestartCount, nil }, 1)
	s.awaitAdvertised(s.resource, 2, 1)
	s.hasReasons(flapping)
	s.step("helm uninstall, and install again")
	s.uninstall()
	s.install("config.flapLimit=2")
	s.hasReasons(flapping)
}

// flap breaks and heals the first card until it is in quarantine, which requires a flapLimit of 2. It returns the
// devices' reasons.
func (s *scene) flap() map[string][]string {
	for range 2 {
		s.breakCard(first)
		s.showsFault(true)
		s.healCard(first)
		s.showsFault(false)
	}
	flapping := map[string][]string{firstID: {"flapping"}}
	s.hasReasons(flapping)
	return flapping
}

// showsFault waits until `devices` shows the card's fault or, if want is false, stops showing it.
func (s *scene) showsFault(want bool) {
	await(s, "port-ap6 in devices", func() (bool, error) { return strings.Contains(s.exec("devices"), "port-ap6"), nil }, want)
}

// draLedger shows that a quarantine survives a switch to the other API. As with the device plugin, a card that is
// pulled while no DRA driver is running counts as missing.
func draLedger(s *scene) {
	s.plug(first, second)
	s.step("device plugin: a card turns too often, and is in quarantine")
	s.install("config.flapLimit=2")
	s.awaitAdvertised(s.resource, 2, 2)
	reasons := s.flap()
	slices := s.followSlices()
	s.step("helm uninstall, and install with DRA: the card has a taint")
	s.uninstall()
	began := time.Now()
	s.install(s.draValues("config.flapLimit=2")...)
	slices.shows(began, offer(secondID).with(firstID, "flapping:NoSchedule"))
	s.hasReasons(reasons)
	s.step("another driver: the same")
	s.restartDaemon()
	s.hasReasons(reasons)
	s.step("the other card is pulled while no driver runs: it is missing")
	s.uninstall()
	s.pullCard(second)
	s.install(s.draValues("config.flapLimit=2")...)
	s.logged("device.missing", line{"device": secondID, "level": "error"})
	reasons[secondID] = []string{"missing"}
	s.hasReasons(reasons)
	s.step("it is forgotten")
	s.exec("forget", secondID, "--by", "alice")
	delete(reasons, secondID)
	s.hasReasons(reasons)
}
