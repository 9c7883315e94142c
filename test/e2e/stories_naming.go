package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The stories in this file rename devices with helm upgrade. With the chart's upgrade strategy, the new daemon becomes
// ready while the old one is still running.

// namingAway is how long a free port can go without being offered under any name while names change.
const namingAway = 2 * time.Second

// plugFourPorts plugs in a card with two ports and two cards with one port each, and returns the ports and the cards.
func (s *scene) plugFourPorts() (ports, wholes deviceNames) {
	s.plugCard(first, 2, -1, afuID)
	s.plug(second, third)
	wholes = deviceNames{deviceName(firstID), deviceName(secondID), deviceName(thirdID)}
	return slices.Insert(slices.Clone(wholes), 1, deviceName(firstID)+"-p1"), wholes
}

// crowdOf creates n pods, named name-0 and so on, that request a resource. It returns their names.
func (s *scene) crowdOf(name, resource string, n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", name, i))
		s.create(s.pod(names[i], resource, 1))
	}
	return names
}

// running returns which of these pods are running.
func (s *scene) running(names []string) ([]string, error) {
	pods, err := s.Client.CoreV1().Pods(s.users).List(s.ctx, metav1.ListOptions{})
	var found []string
	for _, pod := range pods.Items {
		if slices.Contains(names, pod.Name) && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			found = append(found, pod.Name)
		}
	}
	return found, err
}

// run waits until exactly n of these pods are running, and returns their names.
func (s *scene) run(names []string, n int) []string {
	var found []string
	await(s, fmt.Sprintf("running pods of %v", names), func() (_ int, err error) {
		found, err = s.running(names)
		return len(found), err
	}, n)
	return found
}

// guests repeatedly creates a pod that requests a resource, and deletes it two seconds later, until end is called.
func (s *scene) guests(resource string) (end func() int) {
	ctx, stop := context.WithCancel(s.ctx)
	var task sync.WaitGroup
	var err error
	n := 0
	task.Go(func() {
		err = s.try(func() {
			for ; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("guest-%d", n)
				s.create(s.pod(name, resource, 1))
				select {
				case <-time.After(2 * time.Second):
				case <-ctx.Done():
				}
				s.deletePods(name)
			}
		})
	})
	s.cleanups = append(s.cleanups, func() { stop(); task.Wait() })
	return func() int {
		stop()
		task.Wait()
		s.check(err)
		return n
	}
}

// replaces waits until there is only one daemon, and it isn't the pod named old.
func (s *scene) replaces(old string) {
	await(s, "another daemon", func() (bool, error) { return s.daemon().Name != old, nil }, true)
}

// namingMode changes the mode while pods that request the old or the new names come, go and wait.
func namingMode(s *scene) {
	s.noSlices()
	ports, wholes := s.plugFourPorts()
	modes := []struct {
		name, resource string
		all            deviceNames
	}{
		{"single", s.resource, ports}, {"af", afResource, ports}, {"region", region, wholes}, {"single", s.resource, ports},
	}
	s.install("minReadySeconds=5")
	w := s.sample(&sampler{resources: []string{s.resource, afResource, region}, inSlices: true, awayLimit: namingAway})
	w.shows(time.Now(), offers{s.resource: ports})
	for i, to := range modes[1:] {
		from := modes[i]
		s.step("mode %s → %s, while pods of both names come, go and wait", from.name, to.name)
		for _, name := range []string{"stays", "leaves"} {
			s.create(s.pod(name, from.resource, 1))
			s.reachesPhase(name, corev1.PodRunning)
		}
		next := s.crowdOf("next", to.resource, 4)
		s.unschedulable(next[0])
		end := s.guests(from.resource)
		old := s.daemon().Name
		began := time.Now()
		s.beginUpgrade("minReadySeconds=5", "config.mode="+to.name)
		s.wait(3 * time.Second)
		s.deletePods("leaves")
		s.replaces(old)
		s.step("  another daemon after %.1f s", time.Since(began).Seconds())
		await(s, "a pod of the new name", func() (bool, error) {
			found, err := s.running(next)
			return len(found) > 0, err
		}, true)
		s.step("  a waiting pod runs after %.1f s; %d pods of the former name came and went", time.Since(began).Seconds(), end())
		s.deletePods("stays")
		ended := time.Now()
		s.step("  all are offered %.1f s after the last pod of the former name", w.shows(ended, offers{to.resource: to.all}).Sub(ended).Seconds())
		s.run(next, len(to.all))
		s.deletePods(next...)
		w.changes(began)
	}
	s.step("an upgrade that keeps the names: all are offered in each sample")
	began, old := time.Now(), s.daemon().Name
	s.beginUpgrade("minReadySeconds=5", "config.mode=single", "config.logLevel=debug", "podAnnotations.a=b")
	s.replaces(old)
	s.wait(5 * time.Second)
	for _, state := range w.since(began) {
		same(s, "offers", state.offers, offers{s.resource: ports})
	}
	w.end()
}

// namingName renames ports, first with a rule and then with the resourceName setting, while some pods are waiting for
// the old name and others for the new one.
func namingName(s *scene) {
	ports, _ := s.plugFourPorts()
	const short = "example.com/nlb"
	other := s.resource + "-other"
	s.install("minReadySeconds=5", "config.mode=af")
	w := s.sample(&sampler{resources: []string{afResource, short, s.resource, other}, awayLimit: namingAway})
	w.shows(time.Now(), offers{afResource: ports})
	s.step("a rule names all ports, then four pods request the name of the mode")
	w.rename(ports, afResource, short, false, "config.mode=af", "config.resources[0].name="+short, "config.resources[0].match.afuId="+afuID)
	s.step("mode single, without pods")
	s.beginUpgrade("minReadySeconds=5")
	w.shows(time.Now(), offers{s.resource: ports})
	s.replaces("")
	s.step("another resourceName, while four pods hold all ports")
	w.rename(ports, s.resource, other, true, "config.resourceName="+other)
	w.end()
}

// rename renames ports with helm upgrade. Four pods are waiting for the new name. Four others request the old one; they
// are created before the upgrade if early is true, and otherwise right after it has begun.
func (w *sampler) rename(ports deviceNames, former, name string, early bool, values ...string) {
	s := w.s
	next := s.crowdOf("next", name, 4)
	s.unschedulable(next[0])
	var users []string
	if early {
		users = s.run(s.crowdOf("user", former, 4), 4)
	}
	old := s.daemon().Name
	began := time.Now()
	s.beginUpgrade(append(values, "minReadySeconds=5")...)
	if !early {
		users = s.crowdOf("user", former, 4)
	}
	s.replaces(old)
	s.step("  another daemon after %.1f s", time.Since(began).Seconds())
	s.wait(3 * time.Second)
	holding := must(s.running(users))
	if len(holding) == 0 {
		s.failf("pods of the former name: found none that runs, want some")
	}
	reasons, left := map[string][]string{}, slices.Clone(ports)
	for _, pod := range holding {
		reasons[s.anyReport(pod).Env["ACCELERATOR_DEVICES"]] = []string{"replaced-in-use"}
		left = left.without(s.deviceOf(pod))
	}
	for range 2 {
		s.hasReasons(reasons)
		s.run(next, len(left))
		s.wait(10 * time.Second)
	}
	s.step("  %d pods hold ports under the former name, %d under the new one", len(holding), len(left))
	for _, pod := range holding {
		device := s.deviceOf(pod)
		s.deletePods(pod)
		ended := time.Now()
		left = append(left, device)
		slices.Sort(left)
		s.step("  a pod ends: its port is offered under the new name after %.1f s", w.shows(ended, offers{name: left}).Sub(ended).Seconds())
		s.run(next, len(left))
	}
	s.deletePods(append(next, slices.DeleteFunc(users, func(pod string) bool { return slices.Contains(holding, pod) })...)...)
	w.changes(began)
}

// namingDRA changes the mode while pods hold ports through claims. No pod is evicted, and the two daemons don't keep
// overwriting each other's slices.
func namingDRA(s *scene) {
	s.noSlices()
	var ports, wholes deviceNames
	for _, address := range []string{first, second, third} {
		s.plugCard(address, 2, -1, afuID)
		wholes = append(wholes, deviceName(address))
		ports = append(ports, deviceName(address), deviceName(address)+"-p1")
	}
	s.installDRA("minReadySeconds=5")
	published, pods := s.followSlices(), s.followPods()
	w := s.sample(&sampler{inSlices: true, awayLimit: namingAway})
	w.shows(time.Now(), offers{draDriver: ports})
	// change changes the mode, waits until the wanted devices are offered, and checks that no holder has been deleted.
	change := func(mode string, want offers, holders ...string) {
		began, old := time.Now(), s.daemon().Name
		s.beginUpgrade(s.draValues("minReadySeconds=5", "config.mode="+mode)...)
		s.replaces(old)
		s.step("  another daemon after %.1f s", time.Since(began).Seconds())
		s.step("  devices that no pod holds are offered after %.1f s", w.shows(began, want).Sub(began).Seconds())
		s.wait(20 * time.Second)
		for _, st := range pods.since(s, began) {
			for _, name := range holders {
				if pod := st.objects[name]; pod == nil || pod.DeletionTimestamp != nil {
					s.failf("pod %s is deleted %.1f s after the begin, want it to run", name, st.at.Sub(began).Seconds())
				}
			}
		}
		states := published.since(s, began)
		var forms []string // forms of the third card, which is free
		for _, st := range states {
			if form := formIn(st.objects, wholes[2]); len(forms) == 0 || forms[len(forms)-1] != form {
				forms = append(forms, form)
			}
		}
		s.step("  %d states of the slices; the free card: %q", len(states), forms)
		if forms = slices.DeleteFunc(forms, func(form string) bool { return form == "" }); len(forms) != 2 || len(states) > 8 {
			s.failf("slices: found %d states, in which the free card is %q, want at most 8, and one change", len(states), forms)
		}
		w.changes(began)
	}
	ended := func(pod string, want offers) {
		s.deleteClaimed(pod)
		since := time.Now()
		s.step("  a pod ends: offered after %.1f s", w.shows(since, want).Sub(since).Seconds())
	}

	// One pod has the second port of a card, and another pod has the first port of another card. A card has the same
	// device name as its first port. So when the mode changes, the claim on the first port keeps its device, without a
	// taint, until the pod ends.
	bus, port := `device.attributes["resource.kubernetes.io"].pciBusID == "`, `" && `+attribute("portId")+" == "
	s.claimed("second", selects(bus+first+port+"1"))
	s.claimed("first", selects(bus+second+port+"0"))
	for _, name := range []string{"second", "first"} {
		s.reachesPhase(name, corev1.PodRunning)
	}
	same(s, "devices", deviceNames{s.deviceOf("second"), s.deviceOf("first")}, deviceNames{wholes[0] + "-p1", wholes[1]})
	next := []string{"next-0", "next-1", "next-2"}
	for _, name := range next {
		s.claimed(name, selects(`device.attributes["`+draDriver+`"].?afuId.orValue("") == ""`)) // a whole card
	}
	s.pending(next[0])
	s.step("mode region, while pods hold ports")
	change("region", offers{wholeCards: wholes[1:]}, "second", "first")
	s.run(next, 1)
	ended("second", offers{wholeCards: wholes})
	s.run(next, 2)
	ended("first", offers{wholeCards: wholes})
	s.run(next, 3)

	s.step("mode single, while pods hold cards")
	rest := map[string]string{} // device to pod
	for _, name := range next {
		rest[s.deviceOf(name)] = name
	}
	s.deleteClaimed(rest[wholes[2]])
	s.claimed("port", selects(bus+first+port+"1"))
	s.pending("port")
	change("single", offers{draDriver: append(slices.Clone(wholes), wholes[2]+"-p1")}, rest[wholes[0]], rest[wholes[1]])
	ended(rest[wholes[0]], offers{draDriver: ports.without(wholes[1] + "-p1")})
	s.reachesPhase("port", corev1.PodRunning)
	ended(rest[wholes[1]], offers{draDriver: ports})
	w.end()
}

// formIn returns the form in which slices contain a device (see [formOf]), or "" if they don't contain it.
func formIn(all map[string]*resourceapi.ResourceSlice, name string) string {
	for _, slice := range all {
		for _, device := range slice.Spec.Devices {
			if device.Name == name {
				return formOf(device)
			}
		}
	}
	return ""
}
