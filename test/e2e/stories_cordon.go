package main

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cordon takes cards out of service and puts them back using only kubectl.
func cordon(s *scene) {
	s.plug(first, second)
	s.step("helm install with events")
	s.install("events=true", "minReadySeconds=5")
	s.awaitAdvertised(s.resource, 2, 2)
	s.userGets("user", firstID, "dfl-port.0")

	s.step("kubectl exec: cordon: the card is not allocatable at once, its pod keeps running, no new pod gets it")
	printed := s.exec("cordon", firstID, secondID, "--why", "replace the fan", "--by", "alice")
	for _, words := range []string{
		firstID + " cordoned by alice since ", ": replace the fan\n",
		firstID + " is out of service, still in use by default/user/main", secondID + " is out of service, free",
	} {
		if !strings.Contains(printed, words) {
			s.failf("output of cordon: want %q in it:\n%s", words, printed)
		}
	}
	s.awaitAdvertised(s.resource, 2, 0)
	s.user("next")
	s.unschedulable("next")
	s.staysInPhase("user", corev1.PodRunning)
	s.hasCordons(firstID+" alice replace the fan", secondID+" alice replace the fan")

	s.step("log and Event have the user and the reason")
	s.logged("device.cordoned", line{"device": firstID, "by": "alice", "why": "replace the fan", "reason": "command"})
	s.hasEvent(aboutNode(), "DeviceCordoned", corev1.EventTypeNormal, "cordoned by alice since ", ": replace the fan.", "The pod default/user uses it")

	s.step("after a restart of the daemon, and a helm upgrade: still cordoned")
	s.restartDaemon()
	s.logged("device.cordoned", line{"device": firstID, "by": "alice", "reason": "file"})
	s.awaitAdvertised(s.resource, 2, 0)
	// Wait until the new pod counts as available. The DaemonSet controller checks a new pod only once, after
	// minReadySeconds. If the controller is still waiting for the old pod at that point, it never checks the new one
	// again.
	await(s, "available pods", func() (int32, error) {
		set, err := s.Client.AppsV1().DaemonSets(namespace).Get(s.ctx, "fpga-accelerator-device-plugin", metav1.GetOptions{})
		return set.Status.NumberAvailable, err
	}, 1)
	old := s.daemon().Name
	s.always(0, func() {
		s.mustHelm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", "image.tag="+nextVersion, "--wait", "--timeout", "1m")
		s.replaces(old)
	})
	s.hasCordons(firstID+" alice replace the fan", secondID+" alice replace the fan")

	s.step("two daemons during an upgrade: a command in one acts in both")
	pods := s.surgeUpgrade()
	s.execInPod(pods[0], "uncordon", firstID, "--by", "bob")
	for _, pod := range pods {
		await(s, "cordons in "+pod, func() ([]string, error) { return s.cordonsIn(pod) }, []string{secondID + " alice replace the fan"})
	}
	s.execInPod(pods[1], "cordon", firstID, "--by", "bob", "--why", "dust")
	for _, pod := range pods {
		await(s, "cordons in "+pod, func() ([]string, error) { return s.cordonsIn(pod) },
			[]string{firstID + " bob dust", secondID + " alice replace the fan"})
	}
	s.mustHelm("rollback", "--wait", "--timeout", "1m")
	s.awaitAdvertised(s.resource, 2, 0)

	// Uncordon both cards. The scheduler only compares numbers: the running pod uses up one healthy device, even though
	// its own card is cordoned and therefore isn't counted. So the pending pod needs both.
	s.step("uncordon: the cards are allocatable, and the pending pod gets the free one")
	s.exec("uncordon", firstID, secondID, "--by", "alice")
	s.hasReport("next", reportOf(secondID, "dfl-port.1"))
	s.awaitAdvertised(s.resource, 2, 2)
	s.logged("device.uncordoned", line{"device": secondID, "by": "alice", "reason": "command"})

	s.step("a cordon with --for ends by itself")
	s.exec("cordon", firstID, "--by", "bob", "--why", "a minute of rest", "--for", "5s")
	s.awaitAdvertised(s.resource, 2, 2)
	s.logged("device.uncordoned", line{"device": firstID, "why": "a minute of rest", "reason": "expired"})
	s.hasCordons()
	s.hasEvent(aboutNode(), "DeviceRecovered", corev1.EventTypeNormal)
}

// surgeUpgrade starts an upgrade that never finishes, because minReadySeconds is too long. It returns both daemons'
// pods.
func (s *scene) surgeUpgrade() (pods []string) {
	s.mustHelm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", "minReadySeconds=3600", "--set", "podLabels.surge=yes")
	await(s, "two daemons, ready", func() (bool, error) {
		all, err := s.daemons()
		pods = nil
		for _, pod := range all {
			if ready(pod) && pod.DeletionTimestamp == nil {
				pods = append(pods, pod.Name)
			}
		}
		return len(pods) == 2, err
	}, true)
	return pods
}

// execInPod is like exec, but runs the command in the given daemon pod.
func (s *scene) execInPod(pod string, args ...string) string {
	return s.must("kubectl", append([]string{"--namespace", namespace, "exec", pod, "--", "accelerator-device-plugin"}, args...)...)
}

// hasCordons waits until `devices` shows exactly these cordons, each in the form ID BY WHY.
func (s *scene) hasCordons(want ...string) {
	pod := s.daemon().Name
	await(s, "cordons", func() ([]string, error) { return s.cordonsIn(pod) }, want)
}

// cordonsIn returns the cordons that `devices` prints when it is run in a pod.
func (s *scene) cordonsIn(pod string) (got []string, err error) {
	var devices []struct {
		ID      string
		Reasons []string
		Cordon  *struct{ By, Why string }
	}
	if err := json.Unmarshal([]byte(s.execInPod(pod, "devices", "-o", "json")), &devices); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	for _, d := range devices {
		if d.Cordon != nil && len(d.Reasons) == 1 && d.Reasons[0] == "cordoned" {
			got = append(got, strings.Join([]string{d.ID, d.Cordon.By, d.Cordon.Why}, " "))
		}
	}
	return got, nil
}
