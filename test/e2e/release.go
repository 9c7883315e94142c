package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	release   = "fpga"
	namespace = "kube-system" // the release's namespace

	// Label selectors for the plugin's pods, the driver's pods, and both.
	pluginPods = "app.kubernetes.io/name=accelerator-device-plugin,app.kubernetes.io/instance=" + release
	draPods    = "app.kubernetes.io/name=accelerator-device-plugin-dra,app.kubernetes.io/instance=" + release
	selector   = "app.kubernetes.io/name in (accelerator-device-plugin,accelerator-device-plugin-dra),app.kubernetes.io/instance=" + release

	daemonAccount = namespace + ":" + release + "-accelerator-device-plugin"

	nextVersion = "next" // the same image with a different tag
)

// images lists the names of the images that `make image` builds.
var images = []string{"accelerator-device-plugin", draImage, operator, registryImage}

// image returns the path of an image's archive for this machine's architecture.
func (o options) image(name string) string {
	return filepath.Join(o.dist, fmt.Sprintf("%s_%s_%s.tar", name, o.version, runtime.GOARCH))
}

// tag returns the images' tag.
func (o options) tag() string { return strings.ReplaceAll(o.version, "+", "_") }

// chart returns the path to the daemon's chart.
func (s *scene) chart() string { return s.packaged("accelerator-device-plugin") }

// packaged returns the path of a chart packaged by `make chart`.
func (s *scene) packaged(name string) string { return s.glob(filepath.Join(s.dist, name+"-*.tgz")) }

// glob returns the path that matches a pattern. It ends the story unless there is exactly one.
func (s *scene) glob(pattern string) string {
	paths := must(filepath.Glob(pattern))
	if len(paths) != 1 {
		s.failf("%s: found %d files, want one", pattern, len(paths))
	}
	return paths[0]
}

// helm runs a helm command on the release.
func (s *scene) helm(command string, args ...string) (string, error) {
	return s.Run(s.ctx, "helm", append([]string{command, release, "--namespace", namespace}, args...)...)
}

// mustHelm is like helm, but ends the story if the command fails.
func (s *scene) mustHelm(command string, args ...string) {
	must(s.helm(command, args...))
}

// begin plugs in cards, installs the chart, and waits until the node advertises the cards.
func (s *scene) begin(addresses ...string) {
	s.plug(addresses...)
	s.install()
	s.awaitAdvertised(s.resource, int64(len(addresses)), int64(len(addresses)))
}

// settings returns helm's arguments for the chart in a story. They set the values for the simulated node and for the
// story, followed by the given values, which use the syntax of helm --set.
func (s *scene) settings(values ...string) []string {
	args := []string{s.chart(), "--wait", "--timeout", "1m"}
	values = append([]string{
		"simulatedNode=" + simulated, "stateDir=" + state, "config.resourceName=" + s.resource, "config.recoveryHold=1s", "minReadySeconds=0",
	}, values...)
	return setting(args, values...)
}

// setting appends values to helm's arguments.
func setting(args []string, values ...string) []string {
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return args
}

// install installs the chart, and waits until the daemon is ready.
func (s *scene) install(values ...string) {
	if s.stepBegan.IsZero() {
		s.step("helm install")
	}
	s.mustHelm("install", s.settings(values...)...)
}

// upgradeTo changes some of the release's values and keeps the others. It waits until a new daemon has replaced the old
// one.
func (s *scene) upgradeTo(values ...string) {
	old := s.daemon().Name
	s.mustHelm("upgrade", setting([]string{s.chart(), "--reset-then-reuse-values", "--wait", "--timeout", "1m"}, values...)...)
	s.replaces(old)
}

// beginUpgrade changes the release's values with helm upgrade, but doesn't wait until the new daemon is ready.
func (s *scene) beginUpgrade(values ...string) {
	s.mustHelm("upgrade", slices.DeleteFunc(s.settings(values...), func(arg string) bool { return arg == "--wait" })...)
}

// uninstall uninstalls the release if it exists.
func (s *scene) uninstall() {
	s.mustHelm("uninstall", "--ignore-not-found", "--wait", "--timeout", "1m")
	await(s, "pods of the daemon left", func() (int, error) {
		pods, err := s.daemons()
		return len(pods), err
	}, 0)
}

// daemons returns the release's pods.
func (s *scene) daemons() ([]corev1.Pod, error) { return s.daemonsOf(selector) }

// daemonsOf returns the daemon pods with these labels.
func (s *scene) daemonsOf(labels string) ([]corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(namespace).List(s.ctx, metav1.ListOptions{LabelSelector: labels})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// daemon waits until the release has exactly one pod and the pod is ready. It returns the pod.
func (s *scene) daemon() corev1.Pod { return s.daemonOf(selector) }

// daemonOf waits until exactly one pod has these labels and the pod is ready. It returns the pod.
func (s *scene) daemonOf(labels string) corev1.Pod {
	var pod corev1.Pod
	await(s, "one daemon, ready", func() (bool, error) {
		pods, err := s.daemonsOf(labels)
		if err != nil || len(pods) != 1 || pods[0].DeletionTimestamp != nil {
			return false, err
		}
		pod = pods[0]
		return ready(pod), nil
	}, true)
	return pod
}

// ready reports whether a pod is ready.
func ready(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// restartDaemon deletes the daemon's pod, and waits until its replacement is ready.
func (s *scene) restartDaemon() {
	old := s.daemon()
	s.check(s.Client.CoreV1().Pods(namespace).Delete(s.ctx, old.Name, metav1.DeleteOptions{}))
	await(s, "another daemon", func() (bool, error) {
		pods, err := s.daemons()
		return len(pods) > 0 && pods[0].Name != old.Name, err
	}, true)
	s.daemon()
}

// exec runs one of the daemon binary's commands in the daemon's pod, as described in docs/install.md.
func (s *scene) exec(args ...string) string {
	return s.execInPod(s.daemon().Name, args...)
}

// hasReasons waits until the daemon's /devices lists exactly these unhealthy devices, with these reasons. want maps
// device IDs to reasons.
func (s *scene) hasReasons(want map[string][]string) { s.hasReasonsIn(selector, want) }

// hasReasonsIn is like hasReasons but for the daemon whose pod has these labels.
func (s *scene) hasReasonsIn(labels string, want map[string][]string) {
	await(s, "unhealthy devices", func() (map[string][]string, error) {
		text, err := s.Client.CoreV1().Pods(namespace).ProxyGet("http", s.daemonOf(labels).Name, "9480", "/devices", nil).DoRaw(s.ctx)
		if err != nil {
			return nil, err
		}
		var devices []struct {
			ID, Health string
			Reasons    []string
		}
		if err := json.Unmarshal(text, &devices); err != nil {
			return nil, fmt.Errorf("/devices: %w", err)
		}
		got := map[string][]string{}
		for _, d := range devices {
			if d.Health == "unhealthy" {
				got[d.ID] = d.Reasons
			}
		}
		return got, nil
	}, want)
}

// line is a line in the daemon's log.
type line map[string]any

// logs returns the lines that kubectl logs prints for the daemon. Each line must be a JSON object with the fields that
// every one of the daemon's lines has.
func (s *scene) logs() []line {
	text := s.must("kubectl", "--namespace", namespace, "logs", s.daemon().Name)
	var lines []line
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			s.failf("kubectl logs: found %q, want a JSON object", scanner.Text())
		}
		for _, key := range []string{"time", "level", "message", "event"} {
			if _, ok := l[key].(string); !ok {
				s.failf("kubectl logs: found no field %s, want it in %q", key, scanner.Text())
			}
		}
		must(time.Parse(time.RFC3339Nano, l["time"].(string)))
		lines = append(lines, l)
	}
	return lines
}

// logged waits for a log line with this event and these fields.
func (s *scene) logged(event string, fields line) {
	await(s, "line "+event, func() (bool, error) {
		for _, l := range s.logs() {
			if l["event"] == event && l.has(fields) {
				return true, nil
			}
		}
		return false, nil
	}, true)
}

// has reports whether a line has these fields.
func (l line) has(fields line) bool {
	for name, value := range fields {
		if fmt.Sprint(l[name]) != fmt.Sprint(value) { // comparing text also works for lists
			return false
		}
	}
	return true
}
