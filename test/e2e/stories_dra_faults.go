package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// rounds is how many times a story repeats a measurement.
const rounds = 7

// draBreak breaks the card of a Deployment's pod. The pod is evicted, and its replacement gets another card.
func draBreak(s *scene) {
	cards := map[string]string{firstID: first, secondID: second}
	s.plug(first, second)
	s.installDRA("config.flapLimit=0")
	both := offer(firstID, secondID)
	slices, pods := s.followSlices(), s.followPods()
	slices.shows(time.Now(), both)
	s.template("card", one())
	s.deployment("user", "card")
	name, id := s.holderOf("user", "")
	s.step("the card of a Deployment's pod breaks, %d times", rounds)
	var tainted, marked, ended, next, recovering, free times
	for range rounds {
		broken := s.breakCard(cards[id])
		tainted = append(tainted, slices.taints(broken, id).Sub(broken))
		marked = append(marked, pods.marked(broken, name).Sub(broken))
		ended = append(ended, pods.gone(broken, name).Sub(broken))
		old := id
		name, id = s.holderOf("user", name)
		next = append(next, pods.runs(broken, name).Sub(broken))
		if id == old {
			s.failf("next pod: found the broken card %s, want another", id)
		}
		healed := s.healCard(cards[old])
		recovering = append(recovering, slices.shows(healed, both.with(old, "recovering:NoSchedule")).Sub(healed))
		free = append(free, slices.shows(healed, both).Sub(healed))
	}
	s.measured("card broken → taint visible", tainted, 100*time.Millisecond)
	s.measured("card broken → pod marked for deletion", marked, 500*time.Millisecond)
	s.measured("card broken → pod ended (its grace period is 1 s)", ended, 0)
	s.measured("card broken → next pod runs on another card", next, 0)
	s.measured("card healed → taint NoSchedule visible", recovering, 100*time.Millisecond)
	s.measured("card healed → without a taint (recoveryHold is 1 s)", free, 0)
	s.step("with the effect NoSchedule the pod stays, and pod status has the health of the card")
	s.removeClaims()
	s.mustHelm("upgrade", s.settings(s.draValues("config.flapLimit=0", "dra.taintEffect=NoSchedule")...)...)
	s.daemon()
	s.claimed("user", one())
	s.reachesPhase("user", corev1.PodRunning)
	names := must(s.allocated("user"))
	id = map[string]string{deviceName(firstID): firstID, deviceName(secondID): secondID}[names[0]]
	s.claimHealth("user", map[string]string{id: "Healthy"})
	broken := s.breakCard(cards[id])
	slices.shows(broken, both.with(id, "port-ap6:NoSchedule"))
	s.claimHealth("user", map[string]string{id: "Unhealthy"})
	s.step("  Unhealthy after %d ms", time.Since(broken).Milliseconds())
	s.staysInPhase("user", corev1.PodRunning)
	s.healCard(cards[id])
	s.claimHealth("user", map[string]string{id: "Healthy"})
	slices.shows(time.Now(), both)
}

// draUntainted shows that on Kubernetes versions without taints in slices, a broken card is removed from the slice, but
// its pod keeps running.
func draUntainted(s *scene) {
	if s.minor >= taints {
		s.step("NOT RUN: slices of this version of Kubernetes have taints")
		return
	}
	s.plug(first, second)
	s.installDRA("config.flapLimit=0")
	slices := s.followSlices()
	slices.shows(time.Now(), offer(firstID, secondID))
	s.claimed("user", selects(`device.attributes["resource.kubernetes.io"].pciBusID == "`+first+`"`))
	s.hasReport("user", draReport(firstID, "dfl-port.0"))
	s.step("the card of a pod breaks: no other pod gets it, and its pod stays")
	var left times
	for range rounds {
		broken := s.breakCard(first)
		left = append(left, slices.shows(broken, offer(secondID)).Sub(broken))
		slices.shows(s.healCard(first), offer(firstID, secondID))
	}
	s.measured("card broken → not in the slice", left, 100*time.Millisecond)
	s.logged("taints.unsupported", line{})
	slices.shows(s.breakCard(first), offer(secondID))
	s.claimed("next", one())
	s.hasReport("next", draReport(secondID, "dfl-port.1"))
	s.claimed("waits", one())
	s.pending("waits")
	s.staysInPhase("user", corev1.PodRunning)
	s.step("the card recovers: the waiting pod gets it after its holder")
	s.healCard(first)
	s.deleteClaimed("user")
	s.hasReport("waits", draReport(firstID, "dfl-port.0"))
}

// holderOf waits until a Deployment has a running pod other than old. It returns that pod's name and its card's ID.
func (s *scene) holderOf(deployment, old string) (name, id string) {
	await(s, "running pod of "+deployment, func() (bool, error) {
		pods, err := s.Client.CoreV1().Pods(s.users).List(s.ctx, metav1.ListOptions{LabelSelector: "app=" + deployment})
		if err != nil {
			return false, err
		}
		for _, pod := range pods.Items {
			if pod.Name != old && pod.Status.Phase == corev1.PodRunning {
				r, err := s.lastReport(pod.Name, "main")
				name, id = pod.Name, r.Env["ACCELERATOR_DEVICES"]
				return id != "", err
			}
		}
		return false, nil
	}, true)
	return name, id
}

// draPulled pulls a card while a pod holds it. The card stays in the slice, tainted, until the pod has ended.
func draPulled(s *scene) {
	s.plug(first)
	s.installDRA("config.flapLimit=0")
	slices, pods := s.followSlices(), s.followPods()
	slices.shows(time.Now(), offer(firstID))
	s.step("a card is pulled under its pod: the pod is evicted, then the card leaves the slice; %d times", rounds)
	s.template("card", one())
	var tainted, marked, ended, left times
	for round := range rounds {
		name := fmt.Sprintf("pod-%d", round)
		s.create(s.templated(name, "card"))
		s.hasReport(name, draReport(firstID, "dfl-port.0"))
		pulled := s.pullCard(first)
		tainted = append(tainted, slices.taints(pulled, firstID).Sub(pulled))
		marked = append(marked, pods.marked(pulled, name).Sub(pulled))
		gone := pods.gone(pulled, name)
		ended = append(ended, gone.Sub(pulled))
		left = append(left, slices.shows(pulled, offered{}).Sub(pulled))
		slices.shows(s.plugCard(first, 1, -1, afuID), offer(firstID))
	}
	s.measured("card pulled → taint visible", tainted, 100*time.Millisecond)
	s.measured("card pulled → pod marked for deletion", marked, 500*time.Millisecond)
	s.measured("card pulled → pod ended (its grace period is 1 s)", ended, 0)
	s.measured("card pulled → not in the slice", left, 0)
	s.step("a pod tolerates the taint, and another card is plugged into the slot: not offered")
	s.claimed("user", tolerating())
	s.hasReport("user", draReport(firstID, "dfl-port.0"))
	pulled := s.pullCard(first)
	slices.shows(pulled, offer(firstID).with(firstID, "removed-in-use:NoExecute"))
	plugged := s.plugCard(first, 1, -1, otherAFU)
	s.claimed("next", one())
	s.pending("next")
	s.staysInPhase("user", corev1.PodRunning)
	for _, st := range slices.since(s, plugged) {
		if taint, ok := devices(st.objects)[deviceName(firstID)]; !ok || taint == "" {
			s.failf("slices: found %v after another card was plugged, want a taint", devices(st.objects))
		}
	}
	s.step("  meanwhile: %v", devices(slices.since(s, time.Now())[0].objects))
	s.step("the pod ends: the next pod gets the other card")
	freed := time.Now()
	s.deleteClaimed("user")
	if took := slices.shows(freed, offer(firstID)).Sub(freed); took > soon {
		s.failf("slices: found the other card without a taint after %v, want it within %v after the pod's end", took, soon)
	}
	s.hasReport("next", draReport(firstID, "dfl-port.0"))
	s.step("a card is pulled between allocation and Prepare: the pod's event has the reason, and the pod is evicted")
	slices.shows(s.plugCard(second, 1, -1, afuID), offer(firstID, secondID))
	s.check(s.StopKubelet())
	// A card that is pulled is tainted for a few milliseconds before it leaves the slice. Unless the claim tolerates
	// this taint, the pod is evicted before the kubelet asks the driver to prepare the claim.
	briefly := tolerating()
	seconds := int64(2)
	briefly.Requests[0].Exactly.Tolerations[0].TolerationSeconds = &seconds
	s.claimed("late", briefly)
	await(s, "node of the pod", func() (string, error) {
		pod, err := s.readPod("late")
		if err != nil {
			return "", err
		}
		return pod.Spec.NodeName, nil
	}, cluster.NodeName)
	slices.shows(s.pullCard(second), offer(firstID))
	began := time.Now()
	s.check(s.StartKubelet())
	s.step("  %s", s.cannotPrepare("late", s.users+"/late", secondID, "has left the node"))
	marking := pods.marked(began, "late")
	s.step("  marked for deletion %.1f s after the start of the kubelet", marking.Sub(began).Seconds())
	gone := pods.gone(began, "late")
	s.step("  gone %.1f s after the start of the kubelet", gone.Sub(began).Seconds())
	slices.shows(gone, offer(firstID))
	s.step("the card is plugged again: the next pod gets it")
	s.plug(second)
	s.claimed("again", one())
	s.hasReport("again", draReport(secondID, "dfl-port.1"))
}

// draTolerated shows that a claim's tolerationSeconds count from when its card breaks, even if another card changes or
// the driver is upgraded in the meantime (kubernetes#141107).
func draTolerated(s *scene) {
	const tolerated, tolerance = 30 * time.Second, 5 * time.Second
	s.plug(first, second)
	s.installDRA("config.flapLimit=0")
	both := offer(firstID, secondID)
	slices, pods := s.followSlices(), s.followPods()
	slices.shows(time.Now(), both)
	patient := selects(`device.attributes["resource.kubernetes.io"].pciBusID == "` + first + `"`)
	patient.Requests[0].Exactly.Tolerations = tolerating().Requests[0].Exactly.Tolerations
	patient.Requests[0].Exactly.Tolerations[0].TolerationSeconds = new(int64(tolerated / time.Second))
	s.claimed("user", patient)
	s.hasReport("user", draReport(firstID, "dfl-port.0"))
	s.step("the card of a pod that tolerates this for %v breaks; another card breaks and heals; the driver is upgraded", tolerated)
	broken := s.breakCard(first)
	slices.shows(broken, both.with(firstID, "port-ap6:NoExecute"))
	s.wait(tolerated / 3)
	other := s.breakCard(second)
	slices.shows(other, both.with(firstID, "port-ap6:NoExecute").with(secondID, "port-ap6:NoExecute"))
	s.upgradeTo("config.logLevel=debug")
	healed := s.healCard(second)
	slices.shows(healed, both.with(firstID, "port-ap6:NoExecute"))
	took := pods.marked(broken, "user").Sub(broken)
	if took < tolerated-tolerance || took > tolerated+tolerance {
		s.failf("pod: deleted %v after its card broke, want %v", took, tolerated)
	}
	s.step("  the pod is deleted %.1f s after its card broke", took.Seconds())
	s.healCard(first)
}
