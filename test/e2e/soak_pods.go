package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// mostPods is the maximum number of pods at a time.
const mostPods = 8

// crowdOfSoak tracks the existing pods.
type crowdOfSoak struct {
	mu    sync.Mutex
	names []string
	wants map[string]string // pod name → what the pod requests
	count int
}

// next returns a name for a new pod, or "" if there are enough pods. wants is the name of what the pod requests.
func (c *crowdOfSoak) next(wants string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.names) >= mostPods {
		return ""
	}
	c.count++
	name := fmt.Sprintf("pod-%04d", c.count)
	c.names = append(c.names, name)
	if c.wants == nil {
		c.wants = map[string]string{}
	}
	c.wants[name] = wants
	return name
}

// any returns the name of a random pod, or "".
func (c *crowdOfSoak) any(random *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.names) == 0 {
		return ""
	}
	return c.names[random.IntN(len(c.names))]
}

func (c *crowdOfSoak) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
}

var podOperations = map[string]operation{
	"pod":        {weight: 10, choose: newPod, run: func(a act, name string, args []string) { a.create(a.podOf(name, args)) }},
	"restarting": {weight: 4, choose: newPod, run: func(a act, name string, args []string) { a.create(restarting(a.podOf(name, args))) }},
	// This pod ignores SIGTERM, so the kubelet has to kill it.
	"stubborn": {weight: 2, choose: newPod, run: func(a act, name string, args []string) {
		pod := a.podOf(name, args)
		pod.Spec.Containers[0].Args = []string{"stay"}
		a.create(pod)
	}},
	"init": {weight: 3, choose: newPod, run: func(a act, name string, args []string) {
		pod := a.podOf(name, args)
		first := *pod.Spec.Containers[0].DeepCopy()
		first.Name, first.Args = "first", []string{"pause"} // the pod-resources API never lists it
		pod.Spec.InitContainers = []corev1.Container{first}
		a.create(pod)
	}},
	// A pod requests the name of a mapping, and the operator translates it. If the operator is down, the pod is
	// rejected. In region mode, the container runtime's hook lets the pod run only on a card that has the AFU.
	"mapped": {weight: 3, choose: func(s *soaking, random *rand.Rand) (string, []string, bool) {
		name := map[string]string{"af": "soak-loopback", "region": "soak-region"}[s.present().Mode]
		if name == "" || s.present().API == "dra" {
			return "", nil, false
		}
		pod := s.crowd.next(domain + name)
		return pod, []string{domain + name, "1"}, pod != ""
	}, run: func(a act, name string, args []string) { a.create(mayFail(a.podOf(name, args))) }},
	// A pod's claim requires an AFU. Simulated cards can't be programmed, so the pod runs only on a card that already
	// has the AFU.
	"programmed": {weight: 2, choose: func(s *soaking, random *rand.Rand) (string, []string, bool) {
		if s.present().API != "dra" {
			return "", nil, false
		}
		pod := s.crowd.next(soak.Claims)
		return pod, []string{[]string{afuID, otherAFU}[random.IntN(2)]}, pod != ""
	}, run: func(a act, name string, args []string) {
		a.claim(name, withConfig(one(), `{"apiVersion": "`+draDriver+`/v1alpha1", "kind": "AcceleratorConfig", "afuId": "`+args[0]+`"}`))
		pod := a.claimant(name, name)
		pod.Labels = map[string]string{wantsLabel: "1"}
		a.create(mayFail(restarting(pod)))
	}},
	// A pod requests another plugin's devices, which have nothing to do with our cards.
	"other": {weight: 2, choose: func(s *soaking, random *rand.Rand) (string, []string, bool) {
		name := s.crowd.next(otherPlain)
		return name, []string{otherPlain, strconv.Itoa(1 + random.IntN(2))}, name != ""
	}, run: func(a act, name string, args []string) { a.create(restarting(a.podOf(name, args))) }},
	"delete": {weight: 11, choose: anyPod, run: func(a act, name string, _ []string) { a.endPod(name, 1) }},
	"force":  {weight: 2, choose: anyPod, run: func(a act, name string, _ []string) { a.endPod(name, 0) }},
	// The containers' processes are killed. The pod then fails, or its containers are restarted.
	"end": {weight: 3, choose: anyPod, run: func(a act, name string, _ []string) {
		for _, c := range a.watch.containersOf(name) {
			a.check(syscall.Kill(c.PID, syscall.SIGKILL))
		}
	}},
}

// mayFail marks a pod that might wait forever, because there might not be a free card with its AFU.
func mayFail(pod *corev1.Pod) *corev1.Pod {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[mayFailLabel] = "yes"
	return pod
}

const mayFailLabel = "soak/may-fail"

// formerNameHeld reports whether a container holds a device under a name that the settings no longer use.
func (s *soaking) formerNameHeld() bool {
	now := s.present().names()
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	return slices.ContainsFunc(s.crowd.names, func(pod string) bool {
		wants := s.crowd.wants[pod]
		return wants != otherPlain && !slices.Contains(now, wants) && len(s.watch.containersOf(pod)) > 0
	})
}

// newPod chooses what a pod requests: usually a name from the current settings, and sometimes one from the previous
// settings. During an upgrade, both are about equally likely.
func newPod(s *soaking, random *rand.Rand) (string, []string, bool) {
	of := s.present()
	if random.IntN(8) == 0 || s.changing.Load() && random.IntN(2) == 0 {
		s.mu.Lock()
		of = s.former
		s.mu.Unlock()
	}
	all := of.names()
	n := 1
	if random.IntN(6) == 0 {
		n = 2
	}
	args := []string{all[random.IntN(len(all))], strconv.Itoa(n)}
	name := s.crowd.next(args[0])
	return name, args, name != ""
}

func anyPod(s *soaking, random *rand.Rand) (string, []string, bool) {
	name := s.crowd.any(random)
	return name, nil, name != ""
}

// podOf returns a pod that requests what newPod has chosen. If newPod has chosen [soak.Claims], podOf also creates the
// pod's claim.
func (a act) podOf(name string, args []string) *corev1.Pod {
	n := must(strconv.ParseInt(args[1], 10, 64))
	if args[0] != soak.Claims {
		return a.pod(name, args[0], n)
	}
	devices := one()
	devices.Requests[0].Exactly.Count = n
	a.claim(name, devices)
	pod := a.claimant(name, name)
	pod.Labels = map[string]string{wantsLabel: args[1]}
	return pod
}

// wantsLabel is the label for the number of devices in a pod's claim.
const wantsLabel = "soak/devices"

// endPod deletes a pod and its claim.
func (a act) endPod(name string, grace int64) {
	o := metav1.DeleteOptions{GracePeriodSeconds: &grace}
	a.check(ignoreMissing(a.Client.CoreV1().Pods(a.users).Delete(a.ctx, name, o)))
	a.check(ignoreMissing(a.Client.ResourceV1().ResourceClaims(a.users).Delete(a.ctx, name, metav1.DeleteOptions{})))
	a.crowd.remove(name)
}
