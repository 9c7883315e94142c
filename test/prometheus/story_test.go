package prometheus_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/test/prometheus"
)

// firing are the alerts that fire, but those that somebody else on this machine can
// set off: the kernel's uevents are for everybody.
const firing = `ALERTS{alertstate="firing", alertname!~"AcceleratorUeventsForged|AcceleratorEventsLost"}`

// What happens on a node, and what Prometheus says of it at each step; in the end
// each rule has been evaluated without an error, and each query of the dashboard
// has found something.
func TestStory(t *testing.T) {
	t.Parallel()
	r := newRig(t)

	r.step("all is well: four devices, heard by the kubelet")
	r.awaitBoth(`up{job="accelerator-device-plugin", node="worker-1", namespace="kube-system", pod="a"}`, "1")
	r.awaitBoth(`count(up)`, "1") // neither the other port nor the pod that has ended
	r.awaitBoth(`accelerator_devices{resource="`+resource+`", health="healthy"}`, "4")
	r.awaitBoth(`accelerator_streams{resource="`+resource+`"}`, "1")
	r.awaitBoth(`accelerator_resource_ready`, "1")
	r.await(r.classic, `count(`+firing+`)`, "")

	r.step("a rolling upgrade, with two pods at once: no alert")
	r.startDaemon("b")
	r.discover()
	r.awaitBoth(`count(up == 1)`, "2")
	r.await(r.classic, `sum(max by (node, resource) (accelerator_devices{health="healthy"}))`, "4")
	r.endDaemon("a")
	r.discover()
	r.awaitBoth(`count(up)`, "1")
	r.awaitBoth(`accelerator_resource_ready{pod="b"}`, "1")
	r.await(r.classic, `count(max_over_time(`+firing+`[1m]))`, "")

	r.step("a port breaks: unhealthy, the kubelet is told, an alert is pending, then fires")
	before := r.sent()
	r.do(r.node.Set(cardA, 1, "errors/errors", broken))
	r.awaitBoth(`sum(accelerator_devices{health="unhealthy"})`, "1")
	r.awaitBoth(`accelerator_device_health{device="3b:00.0-p1", pci="0000:3b:00.0", health="unhealthy"}`, "1")
	r.awaitBoth(`accelerator_device_reason{device="3b:00.0-p1", reason="port-ap6"}`, "1")
	r.until(func() bool { return r.sent() > before }, func() string { return "hint_to_send does not grow" })
	r.awaitAlert(r.native, "AcceleratorDeviceUnhealthy", "pending")
	alert := r.awaitAlert(r.classic, "AcceleratorDeviceUnhealthy", "firing")
	if text := alert.Annotations["description"]; !strings.Contains(text, "3b:00.0-p1") || !strings.Contains(text, "Reasons: port-ap6 .") {
		t.Errorf("the alert says %q", text)
	}
	r.awaitBoth(`sum(accelerator_device_transitions_total{old="healthy", new="unhealthy", reason="port-ap6"})`, "1")

	r.step("one histogram, read in two ways")
	native := r.value(r.native, `histogram_quantile(0.5, accelerator_hint_to_send_seconds)`)
	classic := r.value(r.classic, `histogram_quantile(0.5, sum by (le) (accelerator_hint_to_send_seconds_bucket))`)
	if native <= 0 || classic <= 0 || native > 2*classic || classic > 2*native {
		t.Errorf("median from the native histogram %g s, from the buckets %g s", native, classic)
	}
	r.await(r.native, `count(accelerator_hint_to_send_seconds_bucket)`, "")

	r.step("it is whole again, and programmed: the alert is over")
	r.do(r.node.Set(cardA, 1, "errors/errors", whole))
	r.do(r.node.Reprogram(cardA, 1, "f7df405cbd7acf7222f144b0b93acd18"))
	r.awaitBoth(`sum(accelerator_devices{health="healthy"})`, "4")
	r.awaitBoth(`sum(accelerator_device_identity_changes_total{attribute="afu"})`, "1")
	r.awaitQuiet(r.classic)
	quiet := time.Now()

	r.step("a card is taken out, and pulled: no alert")
	r.settle("exclude: [5e:00.0]\n")
	r.awaitBoth(`count(accelerator_device_reason{reason="excluded"})`, "2")
	r.do(r.node.Unplug(cardB))
	r.awaitBoth(`sum(accelerator_devices)`, "2")
	r.settle("exclude: nonsense\n")
	r.awaitBoth(`sum(accelerator_config_reloads_total{result="refused"})`, "1")
	since := max(1, int(time.Since(quiet).Seconds()))
	if n := r.value(r.classic, fmt.Sprintf(`count(max_over_time(%s[%ds]))`, firing, since)); n != 0 {
		t.Errorf("%g alerts fired", n)
	}

	r.step("devices are given out, what does not exist is refused; a card is pulled from under a pod")
	if _, err := r.kubelet.Allocate(t.Context(), resource, "3b:00.0"); err != nil {
		t.Error(err)
	}
	if _, err := r.kubelet.Allocate(t.Context(), resource, "99:00.0"); err == nil {
		t.Error("a device that does not exist was given out")
	}
	r.awaitBoth(`accelerator_allocations_total{result="refused"}`, "1")
	r.awaitBoth(`accelerator_allocated_devices_total`, "1")
	r.pods.Hold("tenant", "pod", "container", resource, "3b:00.0")
	r.do(r.node.Unplug(cardA))
	r.awaitBoth(`accelerator_tombstones{reason="removed-in-use"}`, "1")
	r.awaitBoth(`accelerator_device_holder{device="3b:00.0", exported_namespace="tenant", exported_pod="pod"}`, "1")
	alert = r.awaitAlert(r.classic, "AcceleratorDeviceRemovedInUse", "firing")
	if text := alert.Annotations["description"]; !strings.Contains(text, "Held by: tenant/pod .") {
		t.Errorf("the alert says %q", text)
	}

	r.step("the kubelet is away, and comes back")
	r.kubelet.Stop()
	r.awaitBoth(`accelerator_resource_ready`, "0")
	r.awaitAlert(r.classic, "AcceleratorResourceWithoutStream", "firing")
	r.startKubelet()
	r.awaitBoth(`accelerator_resource_ready`, "1")
	r.until(func() bool {
		samples, err := r.classic.Query(`ALERTS{alertname="AcceleratorResourceWithoutStream"}`)
		r.do(err)
		return len(samples) == 0
	}, func() string { return "AcceleratorResourceWithoutStream is not over" })

	r.step("every rule was evaluated, every query of the dashboard is answered")
	for name, s := range map[string]*prometheus.Server{"native": r.native, "classic": r.classic} {
		t.Run("rules "+name, func(t *testing.T) { rules(t, s) })
		t.Run("dashboard "+name, func(t *testing.T) { answered(t, s) })
	}
	t.Run("names", func(t *testing.T) { names(t, r.native, r.classic) })

	r.step("the daemon ends: it is down")
	r.endDaemon("b")
	r.awaitBoth(`up`, "0")
	r.awaitAlert(r.classic, "AcceleratorPluginDown", "firing")
}

// sent is how many lists the native histogram has counted.
func (r *rig) sent() float64 {
	return r.value(r.native, `sum(histogram_count(accelerator_hint_to_send_seconds))`)
}

// value is that of an expression with one sample, 0 where there is none.
func (r *rig) value(s *prometheus.Server, expr string) float64 {
	r.t.Helper()
	samples, err := s.Query(expr)
	r.do(err)
	if len(samples) == 0 {
		return 0
	}
	value, err := strconv.ParseFloat(samples[0].Value(), 64)
	r.do(err)
	return value
}

// settle changes the daemon's YAML file.
func (r *rig) settle(settings string) {
	r.t.Helper()
	write(r.t, r.dir+"/config.yaml", settings)
	r.do(r.daemons["b"].Hangup())
}

// rules checks that Prometheus has evaluated all of them, without an error.
func rules(t *testing.T, s *prometheus.Server) {
	got, err := s.Rules()
	if err != nil {
		t.Fatal(err)
	}
	if want := alertRules(t); len(got) != len(want) {
		t.Errorf("%d rules are loaded, want %d", len(got), len(want))
	}
	for _, rule := range got {
		if rule.Health != "ok" || rule.LastError != "" {
			t.Errorf("%s: %s %s", rule.Name, rule.Health, rule.LastError)
		}
	}
}

// empty are panels in which nothing is seen where all is well, or on this node.
var empty = map[string]string{
	"Firing alerts":                     "none does yet, where the rules wait for minutes",
	"annotation Alerts":                 "the same",
	"Nodes down":                        "all do",
	"Resources without a stream":        "all are",
	"Lost sources":                      "none is",
	"API server":                        "it is not spoken to",
	"Uevents of cards":                  "no kernel speaks of a simulated node",
	"Lost, forged and malformed events": "inotify loses none",
}

// unseen are metrics that the daemon has no series of on this node, and their labels.
var unseen = map[string][]string{
	"accelerator_uevents_total": {"subsystem", "action"},
}

// answered checks that each query of the dashboard is answered without an error, and
// with something.
func answered(t *testing.T, s *prometheus.Server) {
	for _, q := range readDashboard(t).queries() {
		samples, err := s.Query(q.expr)
		if err != nil {
			t.Errorf("%s: %v", q.panel, err)
		}
		if len(samples) == 0 && empty[q.panel] == "" {
			t.Errorf("%s: nothing: %s", q.panel, q.expr)
		}
	}
}

// known are the names of all metrics that were scraped, and of their labels.
func known(t *testing.T, servers ...*prometheus.Server) map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	add := func(metric string, labels ...string) {
		if all[metric] == nil {
			all[metric] = make(map[string]bool)
		}
		for _, label := range labels {
			all[metric][label] = true
		}
	}
	for _, s := range servers {
		there, err := s.Labels()
		if err != nil {
			t.Fatal(err)
		}
		for metric, labels := range there {
			add(metric, slices.Collect(maps.Keys(labels))...)
		}
	}
	for metric, labels := range unseen {
		add(metric, append(labels, "node")...)
	}
	return all
}

// names checks that dashboard and alerts use metrics and labels that there are.
func names(t *testing.T, servers ...*prometheus.Server) {
	there := known(t, servers...)
	check := func(where, expr string) {
		all, err := uses(expr)
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
		for _, u := range all {
			labels, ok := there[u.metric]
			if !ok {
				t.Errorf("%s: no metric %s", where, u.metric)
			}
			for _, label := range u.labels {
				if ok && !labels[label] {
					t.Errorf("%s: %s has no label %s", where, u.metric, label)
				}
			}
		}
	}
	for _, q := range readDashboard(t).queries() {
		check(q.panel, q.expr)
	}
	for _, rule := range alertRules(t) {
		check(rule.Alert, rule.Expr)
	}
}
