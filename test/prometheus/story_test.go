package prometheus_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/prometheus"
)

// firing selects the firing alerts, except those that another process on this machine can cause: the kernel sends
// uevents to all listeners.
const firing = `ALERTS{alertstate="firing", alertname!~"AcceleratorUeventsForged|AcceleratorEventsLost"}`

// A node goes through a series of changes. After each, queries and alerts have the expected results. By the end, each
// rule has been evaluated without an error, and each of the dashboard's queries has had a result.
func TestStory(t *testing.T) {
	t.Parallel()
	r := newRig(t)

	r.step("four healthy devices, all on the kubelet's list")
	r.awaitBoth(`up{job="accelerator-device-plugin", node="worker-1", namespace="kube-system", pod="a"}`, "1")
	r.awaitBoth(`count(up)`, "1") // without the pod's other port and the pod that has ended
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

	r.step("a port breaks: it is unhealthy, a list is sent, an alert is pending, then fires")
	before := r.sent()
	r.do(r.node.Set(cardA, 1, "errors/errors", broken))
	r.awaitBoth(`sum(accelerator_devices{health="unhealthy"})`, "1")
	r.awaitBoth(`accelerator_device_health{device="3b:00.0-p1", pci="0000:3b:00.0", health="unhealthy"}`, "1")
	r.awaitBoth(`accelerator_device_reason{device="3b:00.0-p1", reason="port-ap6"}`, "1")
	r.until(func() bool { return r.sent() > before }, func() string {
		return fmt.Sprintf("accelerator_hint_to_send_seconds: found count %g, want more", before)
	})
	r.awaitAlert(r.native, "AcceleratorDeviceUnhealthy", "pending")
	alert := r.awaitAlert(r.classic, "AcceleratorDeviceUnhealthy", "firing")
	if text := alert.Annotations["description"]; !strings.Contains(text, "3b:00.0-p1") || !strings.Contains(text, "Reasons: port-ap6 .") {
		t.Errorf("description: found %q, want the device and its reason", text)
	}
	r.awaitBoth(`sum(accelerator_device_transitions_total{old="healthy", new="unhealthy", reason="port-ap6"})`, "1")

	r.step("the same histogram, scraped as native histogram and as buckets")
	native := r.value(r.native, `histogram_quantile(0.5, accelerator_hint_to_send_seconds)`)
	classic := r.value(r.classic, `histogram_quantile(0.5, sum by (le) (accelerator_hint_to_send_seconds_bucket))`)
	if native <= 0 || classic <= 0 || native > 2*classic || classic > 2*native {
		t.Errorf("median: found %g s from the native histogram, %g s from the buckets; want a factor of at most 2", native, classic)
	}
	r.await(r.native, `count(accelerator_hint_to_send_seconds_bucket)`, "")

	r.step("the port recovers and is programmed: the alert is over")
	r.do(r.node.Set(cardA, 1, "errors/errors", whole))
	r.do(r.node.Reprogram(cardA, 1, "f7df405cbd7acf7222f144b0b93acd18"))
	r.awaitBoth(`sum(accelerator_devices{health="healthy"})`, "4")
	r.awaitBoth(`sum(accelerator_device_identity_changes_total{attribute="afu"})`, "1")
	r.awaitQuiet(r.classic)
	quiet := time.Now()

	r.step("a card is excluded, and pulled: no alert")
	r.configure("exclude: [5e:00.0]\n")
	r.awaitBoth(`count(accelerator_device_reason{reason="excluded"})`, "2")
	r.do(r.node.Unplug(cardB))
	r.awaitBoth(`sum(accelerator_devices)`, "2")
	r.configure("exclude: nonsense\n")
	r.awaitBoth(`sum(accelerator_config_reloads_total{result="refused"})`, "1")
	since := max(1, int(time.Since(quiet).Seconds()))
	if n := r.value(r.classic, fmt.Sprintf(`count(max_over_time(%s[%ds]))`, firing, since)); n != 0 {
		t.Errorf("alerts since the card was excluded: found %g, want none", n)
	}

	r.step("a device is allocated, an unknown one is refused; a card is pulled while a pod holds it")
	if _, err := r.kubelet.Allocate(t.Context(), resource, "3b:00.0"); err != nil {
		t.Error(err)
	}
	if _, err := r.kubelet.Allocate(t.Context(), resource, "99:00.0"); err == nil {
		t.Error("Allocate of an unknown device: got no error, want one")
	}
	r.awaitBoth(`accelerator_allocations_total{result="refused"}`, "1")
	r.awaitBoth(`accelerator_allocated_devices_total`, "1")
	r.pods.Hold("tenant", "pod", "container", resource, "3b:00.0")
	r.do(r.node.Unplug(cardA))
	r.awaitBoth(`accelerator_tombstones{reason="removed-in-use"}`, "1")
	r.awaitBoth(`accelerator_device_holder{device="3b:00.0", exported_namespace="tenant", exported_pod="pod"}`, "1")
	alert = r.awaitAlert(r.classic, "AcceleratorDeviceRemovedInUse", "firing")
	if text := alert.Annotations["description"]; !strings.Contains(text, "In use by: tenant/pod .") {
		t.Errorf("description: found %q, want the pod that holds the device", text)
	}

	r.step("another card gets hot, and its link corrects errors: an alert fires")
	r.plug(cardC, 0)
	r.awaitBoth(`sum(accelerator_card_correctable_errors_total)`, "0")
	r.awaitBoth(`accelerator_card_info{card="86:00.0", bmc_firmware="1.4.0"}`, "1")
	r.awaitBoth(`accelerator_card_current_link_transfers_per_second`, "8000000000")
	r.do(r.node.SetFile(r.node.CardDir(cardC)+"/aer_dev_correctable", simnode.AER("COR", 5)+"\n"))
	sensor, err := filepath.Glob(r.node.FMEDir(cardC) + "/dfl_dev.*/n6000bmc-hwmon.*/hwmon/hwmon*/temp1_input")
	if err != nil || len(sensor) != 1 {
		t.Fatalf("sensor: found %q, error %v; want one", sensor, err)
	}
	r.do(r.node.SetFile(sensor[0], "88000\n"))
	r.awaitBoth(`accelerator_sensor_temperature_celsius{sensor="hottest"}`, "88")
	r.awaitBoth(`accelerator_card_correctable_errors_total{type="BadDLLP"}`, "5")
	if text := r.awaitAlert(r.classic, "AcceleratorCardHot", "firing").Annotations["description"]; !strings.Contains(text, "86:00.0 on worker-1 is at 88.0 °C") {
		t.Errorf("description: found %q, want the card and its temperature", text)
	}

	r.step("the kubelet is stopped and started")
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

	r.step("every rule was evaluated, every query of the dashboard has a result")
	for name, s := range map[string]*prometheus.Server{"native": r.native, "classic": r.classic} {
		t.Run("rules "+name, func(t *testing.T) { rules(t, s) })
		t.Run("dashboard "+name, func(t *testing.T) { answered(t, s) })
	}
	t.Run("names", func(t *testing.T) { names(t, r.native, r.classic) })

	r.step("the daemon ends: an alert fires")
	r.endDaemon("b")
	r.awaitBoth(`up`, "0")
	r.awaitAlert(r.classic, "AcceleratorPluginDown", "firing")
}

// sent returns how many lists the native histogram has counted.
func (r *rig) sent() float64 {
	return r.value(r.native, `sum(histogram_count(accelerator_hint_to_send_seconds))`)
}

// value returns the value of an expression that has at most one sample, or 0 if it has none.
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

// configure writes the daemon's YAML file and makes the daemon read it.
func (r *rig) configure(settings string) {
	r.t.Helper()
	write(r.t, r.dir+"/config.yaml", settings)
	r.do(r.daemons["b"].Hangup())
}

// rules checks that Prometheus has evaluated all rules without errors.
func rules(t *testing.T, s *prometheus.Server) {
	got, err := s.Rules()
	if err != nil {
		t.Fatal(err)
	}
	if want := alertRules(t); len(got) != len(want) {
		t.Errorf("loaded rules: found %d, want %d", len(got), len(want))
	}
	for _, rule := range got {
		if rule.Health != "ok" || rule.LastError != "" {
			t.Errorf("%s: found health %s, error %q; want ok", rule.Name, rule.Health, rule.LastError)
		}
	}
}

// empty maps the titles of panels that may not have data in this test to the reasons.
var empty = map[string]string{
	"Firing alerts":                     "with the unchanged rules, no alert fires within the test",
	"annotation Alerts":                 "with the unchanged rules, no alert fires within the test",
	"Nodes down":                        "there is no such node",
	"Missing cards":                     "there is no such card",
	"Resources without a stream":        "there is no such resource",
	"API server":                        "the daemon has no connection to one",
	"Uevents of cards":                  "the kernel sends no uevents of simulated cards",
	"Lost, forged and malformed events": "inotify loses no events",
}

// unseen maps metrics that don't have any series on this node to their labels. The last two belong to accelerator-fpga
// keep.
var unseen = map[string][]string{
	"accelerator_uevents_total": {"subsystem", "action"},
	"accelerator_owner_waiting": {"reason"},

	"accelerator_bitstream_present":     {"reference"},
	"accelerator_bitstream_pulls_total": {"result"},
}

// answered checks that each of the dashboard's queries has a result and no error.
func answered(t *testing.T, s *prometheus.Server) {
	for _, q := range readDashboard(t).queries() {
		samples, err := s.Query(q.expr)
		if err != nil {
			t.Errorf("%s: %v", q.panel, err)
		}
		if len(samples) == 0 && empty[q.panel] == "" {
			t.Errorf("%s: %s: found no sample, want at least one", q.panel, q.expr)
		}
	}
}

// known returns the label names of all scraped metrics, by metric name.
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

// names checks that the dashboard and the alerts use only metrics and labels that exist.
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
				t.Errorf("%s: found metric %s, want a scraped one", where, u.metric)
			}
			for _, label := range u.labels {
				if ok && !labels[label] {
					t.Errorf("%s: found label %s of %s, want one of its scraped labels", where, label, u.metric)
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
