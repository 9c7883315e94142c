package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finishing lists the chart values for a switch from DRA to the device plugin while pods still have claims, because
// their containers still need the directory of their CDI spec.
var finishing = []string{"dra.finishClaims=true", "config.cdiDir=" + specs}

// changeAPI changes the release's values with helm upgrade, and waits until the resource offers the devices in list,
// and the slices those in inSlices. It prints how long each part took.
func (w *sampler) changeAPI(list, inSlices deviceNames, values ...string) {
	began := time.Now()
	_, err := w.s.helm("upgrade", w.s.settings(values...)...)
	w.s.check(err)
	took := time.Since(began)
	w.changed(began, list, inSlices)
	w.s.step("  helm upgrade --wait: %.1f s", took.Seconds())
}

// changed waits, after a switch to the other API, until the resource offers the devices in list, and the slices those
// in inSlices. It returns the time at which they did. It prints when the old API stopped offering devices and when the
// new one started, relative to began.
func (w *sampler) changed(began time.Time, list, inSlices deviceNames) time.Time {
	reached := w.reaches(began, list, inSlices)
	w.mu.Lock()
	none := slices.IndexFunc(w.states, func(g glimpse) bool { return !g.at.Before(began) && len(g.offers) == 0 })
	text := "never without"
	if none >= 0 {
		text = fmt.Sprintf("%.2f s", w.states[none].at.Sub(began).Seconds())
	}
	w.mu.Unlock()
	w.s.step("  no device in either API after %s, in the new one after %.2f s", text, reached.Sub(began).Seconds())
	return reached
}

// deviceOf returns a pod's only device.
func (s *scene) deviceOf(pod string) string {
	return deviceName(s.anyReport(pod).Env["ACCELERATOR_DEVICES"])
}

// without returns the devices other than name.
func (d deviceNames) without(name string) deviceNames {
	return slices.DeleteFunc(slices.Clone(d), func(n string) bool { return n == name })
}

// unharmed checks that a pod still has the same device, and that its container has been restarted exactly this many
// times.
func (s *scene) unharmed(pod string, was report, restarts int32) {
	await(s, "restarts of "+pod, func() (int32, error) { return s.restarts(pod) }, restarts)
	s.hasReport(pod, was)
}

// draHandover switches between the two APIs with helm upgrade, in both directions, while one pod holds a device through
// a resource and others hold devices through claims. The pods keep their devices.
func draHandover(s *scene) {
	s.noSlices()
	s.plug(first, second, third)
	all := deviceNames{deviceName(firstID), deviceName(secondID), deviceName(thirdID)}
	s.install()
	w := s.sampleBoth()
	w.reaches(time.Now(), all, nil)
	s.create(restarting(s.pod("by-resource", s.resource, 1)))
	s.reachesPhase("by-resource", corev1.PodRunning)
	resource, own := s.anyReport("by-resource"), s.deviceOf("by-resource")

	s.step("to DRA, while a pod holds a device through its resource")
	w.changeAPI(nil, all.without(own), s.draValues()...)
	s.cleanups = append(s.cleanups, s.removeClaims)
	s.unharmed("by-resource", resource, 0)
	s.step("a container with a resource restarts, and has its device")
	s.restartsWith("by-resource", resource, 1)
	s.step("claims get the other two devices; a third claim waits")
	s.claim("by-claim", one())
	s.create(restarting(s.claimant("by-claim", "by-claim")))
	s.claimed("ends", one())
	s.reachesPhase("by-claim", corev1.PodRunning)
	s.reachesPhase("ends", corev1.PodRunning)
	claim, ends := s.anyReport("by-claim"), s.deviceOf("ends")
	s.claimed("waits", one())
	s.pending("waits")
	s.deleteClaimed("waits")

	s.step("to the device plugin, while pods hold all devices")
	w.changeAPI(deviceNames{own}, nil, finishing...)
	s.unharmed("by-resource", resource, 1)
	s.unharmed("by-claim", claim, 0)
	s.user("next")
	s.unschedulable("next")
	s.step("a container with a claim restarts, and has its device")
	s.restartsWith("by-claim", claim, 1)
	s.step("a pod with a claim ends: its device is free for resources")
	began := time.Now()
	s.deleteClaimed("ends")
	s.step("  the pod and its claim are gone after %.1f s", time.Since(began).Seconds())
	two := deviceNames{own, ends}
	slices.Sort(two)
	s.step("  in the list after %.1f s", w.reaches(began, two, nil).Sub(began).Seconds())
	s.reachesPhase("next", corev1.PodRunning)
	same(s, "device of the next pod", s.deviceOf("next"), ends)
	named := func() (bool, error) {
		page, err := s.Client.CoreV1().Pods(namespace).ProxyGet("http", s.daemonOf(pluginPods).Name, "9480", "/metrics", nil).DoRaw(s.ctx)
		return strings.Contains(string(page), `pod="next"`), err
	}
	await(s, "pod next in the metric of holders", named, true)
	s.deletePods("next") // the plugin may not notice this before it ends

	s.step("to DRA, while one pod of each API holds a device")
	w.changeAPI(nil, all.without(own), s.draValues()...)
	s.unharmed("by-resource", resource, 1)
	s.unharmed("by-claim", claim, 1)
	s.step("a pod with a resource ends: its device is free for claims")
	began = time.Now()
	s.deletePods("by-resource")
	s.step("  in a slice after %.1f s", w.reaches(began, nil, all).Sub(began).Seconds())
	for _, name := range []string{"a", "b"} {
		s.claimed(name, one())
		s.reachesPhase(name, corev1.PodRunning)
	}
	s.unharmed("by-claim", claim, 1)
	w.end()
}

// freeze stops a daemon's process with SIGSTOP, and returns a function that kills it.
func (s *scene) freeze(labels string) (kill func()) {
	pid := s.pid(s.daemonOf(labels).Status.ContainerStatuses[0].ContainerID)
	s.check(syscall.Kill(pid, syscall.SIGSTOP))
	return func() { s.check(syscall.Kill(pid, syscall.SIGKILL)) }
}

// remains checks for the given time that both APIs offer exactly these devices.
func (w *sampler) remains(limit time.Duration, list, inSlices deviceNames) {
	began := time.Now()
	w.s.wait(limit)
	for _, state := range w.since(began) {
		if want := w.both(list, inSlices); !state.offers.equal(want) {
			w.s.failf("offers: found %q, want %q for %v", state.offers, want, limit)
		}
	}
}

// draHandoverKilled shows that if the daemon that should give way hangs, the other API's daemon waits until the hanging
// one has been killed.
func draHandoverKilled(s *scene) {
	s.noSlices()
	s.plug(first, second)
	all := deviceNames{deviceName(firstID), deviceName(secondID)}
	s.installDRA()
	w := s.sampleBoth()
	w.reaches(time.Now(), nil, all)
	s.claimed("user", one())
	s.reachesPhase("user", corev1.PodRunning)
	held, own := s.anyReport("user"), s.deviceOf("user")

	s.step("to the device plugin: the driver hangs, and the plugin waits")
	kill := s.freeze(draPods)
	s.beginUpgrade()
	w.remains(3*time.Second, nil, all)
	s.step("the driver is killed: the kubelet deletes its slices, then the plugin offers the free device")
	began := time.Now()
	kill()
	w.changed(began, all.without(own), nil)
	s.unharmed("user", held, 0)
	if took := time.Since(began); took < 40*time.Second || took > 60*time.Second {
		s.failf("device in the list after %v, want it after 40 to 60 s", took)
	}
	s.step("the pod with the claim is deleted: it stays until finishClaims is on")
	s.check(s.Client.CoreV1().Pods(s.users).Delete(s.ctx, "user", metav1.DeleteOptions{}))
	s.stays("user", 3*time.Second)
	s.mustHelm("upgrade", s.settings(finishing...)...)
	s.podGone("user")
	w.reaches(time.Now(), all, nil)

	s.step("to DRA: the plugin hangs, its pod is deleted by force, and the driver waits")
	kill = s.freeze(pluginPods)
	name := s.daemonOf(pluginPods).Name
	s.beginUpgrade(s.draValues()...)
	now := int64(0)
	s.check(s.Client.CoreV1().Pods(namespace).Delete(s.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	s.step("the plugin is killed: the driver publishes the devices")
	began = time.Now()
	kill()
	w.changed(began, nil, all)
	s.daemonOf(draPods)

	s.step("to the device plugin with finishClaims: the driver hangs, and the plugin waits")
	s.claimed("last", one())
	s.reachesPhase("last", corev1.PodRunning)
	own = s.deviceOf("last")
	kill = s.freeze(draPods)
	s.beginUpgrade(finishing...)
	w.remains(3*time.Second, nil, all)
	s.step("the driver is killed: the kubelet deletes its slices, although a driver that finishes claims runs")
	began = time.Now()
	kill()
	w.changed(began, all.without(own), nil)
	s.step("the pod with the claim ends")
	s.deletePods("last")
	w.reaches(time.Now(), all, nil)
	w.end()
}

// draHandoverTogether starts the two APIs' daemons at the same time, repeatedly. Each time, one of them offers all
// devices, and the other one waits.
func draHandoverTogether(s *scene) {
	s.noSlices()
	s.plug(first, second)
	all := deviceNames{deviceName(firstID), deviceName(secondID)}
	const other, label = "other", "e2e.b-com.com/both"
	s.cleanups = append(s.cleanups, func() {
		s.must("helm", "uninstall", other, "--namespace", namespace, "--ignore-not-found", "--wait", "--timeout", "1m")
		s.label(label + "-")
	})
	s.step("helm install, of a release for each API, for nodes with a label")
	selected := `nodeSelector.e2e\.b-com\.com/both=yes`
	s.install(selected)
	args := append([]string{"install", other, "--namespace", namespace}, s.settings(s.draValues(selected)...)...)
	s.must("helm", args...)
	w := s.sampleBoth()
	var won []string
	for round := range 4 {
		s.step("both start at once: round %d", round+1)
		began := time.Now()
		s.label(label + "=yes")
		winner := "neither"
		await(s, "an API with all devices", func() (bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			s.check(w.problem())
			switch {
			case w.last.offers.equal(w.both(all, nil)):
				winner = "device plugin"
			case w.last.offers.equal(w.both(nil, all)):
				winner = "DRA"
			}
			return winner != "neither", nil
		}, true)
		won = append(won, winner)
		// The other API's daemon must be running too, although it is only waiting.
		await(s, "running daemons", func() (int, error) {
			pods, err := s.daemonsOf("app.kubernetes.io/instance in (" + release + "," + other + ")")
			return len(slices.DeleteFunc(pods, func(p corev1.Pod) bool {
				return p.Status.Phase != corev1.PodRunning || strings.HasSuffix(p.Name, "test")
			})), err
		}, 2)
		w.mu.Lock()
		last := w.last
		w.mu.Unlock()
		w.remains(2*time.Second, last.offers[s.resource], last.offers[draDriver])
		s.step("  %s, after %.1f s; the other one waits", winner, time.Since(began).Seconds())
		s.label(label + "-")
		w.reaches(time.Now(), nil, nil)
		await(s, "daemons left", func() (int, error) {
			pods, err := s.daemonsOf("app.kubernetes.io/instance in (" + release + "," + other + ")")
			return len(pods), err
		}, 0)
	}
	s.step("  owners: %s", strings.Join(won, ", "))
	w.end()
}

// label sets (KEY=VALUE) or removes (KEY-) a label on the node.
func (s *scene) label(change string) {
	s.must("kubectl", "label", "nodes", "--all", "--overwrite", change)
}

// draHandoverRollback rolls back a switch to the other API: first automatically, because the upgrade fails, and then
// with helm rollback.
func draHandoverRollback(s *scene) {
	s.noSlices()
	s.plug(first, second)
	all := deviceNames{deviceName(firstID), deviceName(secondID)}
	s.install()
	w := s.sampleBoth()
	w.reaches(time.Now(), all, nil)
	s.user("user")
	s.reachesPhase("user", corev1.PodRunning)
	held, own := s.anyReport("user"), s.deviceOf("user")
	s.step("to DRA with an image that does not exist, and --rollback-on-failure: the plugin is back")
	began := time.Now()
	_, err := s.helm("upgrade", append(s.settings(s.draValues("dra.image.tag=none")...), "--rollback-on-failure", "--timeout", "15s")...)
	s.refused("helm upgrade", err, "failed")
	s.step("  helm upgrade: %.1f s", time.Since(began).Seconds())
	w.reaches(time.Now(), all, nil)
	s.daemonOf(pluginPods)
	s.step("to DRA")
	w.changeAPI(nil, all.without(own), s.draValues()...)
	s.step("helm rollback: the plugin is back")
	began = time.Now()
	s.mustHelm("rollback", "--wait", "--timeout", "2m")
	s.step("  helm rollback --wait: %.1f s", time.Since(began).Seconds())
	w.changed(began, all, nil)
	s.unharmed("user", held, 0)
	w.end()
}

// draHandoverRenumbered shows that after a switch from DRA, the device plugin recognizes the device nodes that claims
// use, even if their cards were renumbered while no daemon was running.
func draHandoverRenumbered(s *scene) {
	s.plug(first)
	s.installDRA()
	s.followSlices().shows(time.Now(), offer(firstID))
	s.claimed("user", one())
	s.hasReport("user", draReport(firstID, "dfl-port.0"))
	s.step("the release is removed under a pod with a claim, and its card and another one are plugged in again in the other order")
	s.uninstall()
	s.pullCard(first)
	s.plug(second, first)
	same(s, "node of the other card", s.portNode(second), "dfl-port.0")
	s.step("the device plugin: the other card has the number that the pod may open, so no pod gets it")
	s.install(finishing...)
	s.hasReasonsIn(pluginPods, map[string][]string{firstID: {"held-other-api", "node-changed"}, secondID: {"node-in-use"}})
	s.user("next")
	s.unschedulable("next")
	s.staysInPhase("user", corev1.PodRunning)
	s.step("its pod ends: the next one gets a card")
	s.deleteClaimed("user")
	s.reachesPhase("next", corev1.PodRunning)
	s.awaitAdvertisedSoon(s.resource, 2, 2)
}
