package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The log and a metric have the pods that hold a device, and the command logs shows them.
func holders(s *scene) {
	s.plug(first)
	s.install()
	s.offers(s.resource, 1, 1)
	s.step("a pod gets a device: log and metric have the pod")
	s.user("user")
	s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	s.logged("device.held", line{"device": firstID, "resource": s.resource, "holders": "[default/user/main]"})
	s.hasHolderMetric("user", true)
	s.step("the card breaks: device.health has the pod")
	s.check(s.breakPower(first)(false))
	s.logged("device.health", line{"device": firstID, "new": "unhealthy", "holders": "[default/user/main]"})
	s.check(s.breakPower(first)(true))
	s.step("the pod ends: the device is free")
	s.deletePods("user")
	s.logged("device.freed", line{"device": firstID, "holders": "[default/user/main]"})
	s.hasHolderMetric("user", false)
	s.offers(s.resource, 1, 1)
	s.step("a pod that ends at once is logged too")
	pod := s.pod("short", s.resource, 1)
	pod.Spec.Containers[0].Args = []string{"exit"}
	s.create(pod)
	s.reachesPhase("short", corev1.PodSucceeded)
	s.logged("device.held", line{"device": firstID, "holders": "[default/short/main]"})
	s.logged("device.freed", line{"device": firstID, "holders": "[default/short/main]"})
	s.deletePods("short")
	s.step("the card is pulled while the next pod holds it")
	s.user("next")
	s.hasReport("next", reportOf(firstID, "dfl-port.0"))
	s.logged("device.held", line{"device": firstID, "holders": "[default/next/main]"})
	s.pull(first)
	s.health("next", map[string]string{firstID: "Unhealthy"})
	s.logged("device.removed", line{"device": firstID, "holders": "[default/next/main]"})
	s.logged("device.tombstone", line{"device": firstID})
	s.step("the next daemon logs the pod that held the device before its start")
	old := s.daemon().Name
	text, err := s.Run(s.ctx, "kubectl", "--namespace", namespace, "logs", old)
	s.check(err)
	s.restartDaemon()
	s.logged("device.held", line{"device": firstID, "holders": "[default/next/main]", "reason": "before the daemon started"})
	s.step("kubectl logs | accelerator-device-plugin logs: the holders of the card; one line for the pull")
	var events []string
	for scanner := bufio.NewScanner(bytes.NewReader(s.logsCommand(text, "-o", "json", "--device", firstID, "--event", "device.*"))); scanner.Scan(); {
		var l line
		s.check(json.Unmarshal(scanner.Bytes(), &l))
		events = append(events, l["event"].(string))
	}
	same(s, "first event", events[0], "device.added")
	same(s, "device.tombstone is shown", slices.Contains(events, "device.tombstone"), true)
	shown := string(s.logsCommand(text, "--device", firstID))
	for _, words := range []string{
		"given to default/user/main", "free again after ", "(held by default/user/main)", "given to default/short/main",
		"given to default/next/main", "gone, held by default/next/main (was healthy for ",
	} {
		if !strings.Contains(shown, words) {
			s.failf("output of logs: want %q in it:\n%s", words, shown)
		}
	}
	_, since, _ := strings.Cut(shown, "given to default/next/main")
	same(s, "warnings about the pulled card", strings.Count(since, firstID+strings.Repeat(" ", 15)+"! "), 1)
	s.step("... --summary")
	summary := string(s.logsCommand(text, "--summary"))
	for _, words := range []string{firstID, s.resource, "default/next/main", "default/short/main"} {
		if !strings.Contains(summary, words) {
			s.failf("summary: want %q in it:\n%s", words, summary)
		}
	}
}

// hasHolderMetric waits until the metric of holders has a series for a pod and the first card, or none.
func (s *scene) hasHolderMetric(pod string, want bool) {
	series := fmt.Sprintf(`accelerator_device_holder{container="main",device=%q,namespace="default",pod=%q,resource=%q} 1`, firstID, pod, s.resource)
	await(s, series, func() (bool, error) {
		page, err := s.Client.CoreV1().Pods(namespace).ProxyGet("http", s.daemon().Name, "9480", "/metrics", nil).DoRaw(s.ctx)
		return strings.Contains(string(page), series+"\n"), err
	}, want)
}

// logsCommand returns the output of the command logs for a log.
func (s *scene) logsCommand(text string, args ...string) []byte {
	binary := filepath.Join(s.dist, "bin_"+runtime.GOARCH, "accelerator-device-plugin")
	cmd := exec.CommandContext(s.ctx, binary, append([]string{"logs"}, args...)...)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	s.check(err)
	return out
}
