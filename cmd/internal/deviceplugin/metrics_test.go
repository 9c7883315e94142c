package deviceplugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/metricstest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// scrape returns the daemon's metrics page as Prometheus receives it.
func (d *testDaemon) scrape() string {
	d.t.Helper()
	page, ok := strings.CutPrefix(d.get("/metrics"), "200 OK: ")
	if !ok {
		d.t.Fatalf("/metrics = %s", page)
	}
	return metricstest.Ours(page)
}

// awaitSeries scrapes until the page contains this line, and returns the page.
func (d *testDaemon) awaitSeries(line string) string {
	d.t.Helper()
	var page string
	patient.Await(d.t, "metrics", func() error {
		if page = d.scrape(); !strings.Contains(page, line+"\n") {
			return fmt.Errorf("page has no line %s:\n%s", line, page)
		}
		return nil
	})
	return page
}

// awaitNoSeries scrapes until no line on the page starts with prefix.
func (d *testDaemon) awaitNoSeries(prefix string) {
	d.t.Helper()
	patient.Await(d.t, "metrics", func() error {
		if page := d.scrape(); strings.Contains("\n"+page, "\n"+prefix) {
			return fmt.Errorf("page has a line %s…:\n%s", prefix, page)
		}
		return nil
	})
}

// TestMetricsOfAStory checks the page after a whole story: one of two cards breaks and heals, a pod gets a port and
// another pod is rejected, a card is pulled while a pod holds it, and the kubelet restarts.
func TestMetricsOfAStory(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, nil)
	d.plug(cardA, cardB)
	d.run()
	d.await("start", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	d.do(d.node.Set(cardA.Address, 0, "errors/errors", "0x4000000000000"))
	d.await("broken", health{"3b:00.0": false, "3b:00.0-p1": true, "5e:00.0": true})
	for _, line := range []string{
		`accelerator_devices{health="unhealthy",resource="b-com.com/accelerator"} 1`,
		`accelerator_device_health{device="3b:00.0",family="dfl",health="unhealthy",pci="0000:3b:00.0",resource="b-com.com/accelerator"} 1`,
		`accelerator_device_reason{device="3b:00.0",reason="port-ap6",resource="b-com.com/accelerator"} 1`,
		`accelerator_device_transitions_total{new="unhealthy",old="healthy",reason="port-ap6"} 1`,
		`accelerator_device_transitions_total{new="healthy",old="absent",reason=""} 3`,
		`accelerator_hint_to_send_seconds_count 1`,
	} {
		d.awaitSeries(line) // the counter changes after the list has been sent
	}
	d.do(d.node.Set(cardA.Address, 0, "errors/errors", "0x0"))
	d.await("healed", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	must.Value(d.kubelet.Allocate(t.Context(), testResource, "3b:00.0-p1"))(t)
	compare.Error(t, "Allocate of a device that is not there", "", compare.ErrorOf(d.kubelet.Allocate(t.Context(), testResource, "86:00.0")))
	d.hold("job", testResource, "5e:00.0")
	d.do(d.node.Unplug(cardB.Address))
	d.await("pulled", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": false})
	d.awaitLine("device.tombstone", "5e:00.0", "default/job/main")
	d.restartKubelet()
	d.await("kubelet restarted", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": false})
	d.awaitSeries(`accelerator_registrations_total{resource="b-com.com/accelerator",result="ok"} 2`)

	page := d.awaitSeries(`accelerator_resource_ready{resource="b-com.com/accelerator"} 1`)
	for _, line := range []string{
		`accelerator_allocations_total{resource="b-com.com/accelerator",result="refused"} 1`,
		`accelerator_allocations_total{resource="b-com.com/accelerator",result="served"} 2`,
		`accelerator_device_holder{container="main",device="5e:00.0",namespace="default",pod="job",resource="b-com.com/accelerator"} 1`,
		`accelerator_kubelet_restarts_total{resource="b-com.com/accelerator"} 1`,
		`accelerator_mode_info{mode="single"} 1`,
		`accelerator_tombstones{reason="removed-in-use",resource="b-com.com/accelerator"} 1`,
	} {
		compare.Contains(t, "page", line+"\n", page)
	}
}

// Without --holder-metrics, the page doesn't contain any pod names.
func TestMetricsWithoutHolders(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, func(c *config.Config) { c.HolderMetrics = false })
	d.plug(cardB)
	d.run()
	d.await("start", health{"5e:00.0": true})
	d.hold("job", testResource, "5e:00.0")
	d.do(d.node.Unplug(cardB.Address))
	d.awaitLine("device.tombstone", "5e:00.0", "default/job/main")
	if page := d.scrape(); strings.Contains(page, "holder{") || strings.Contains(page, "job") {
		t.Errorf("the page names the holder:\n%s", page)
	}
}

// The daemon reports its cards' sensors in the metrics and on the socket, until the settings say otherwise.
func TestSensors(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, func(c *config.Config) { c.SensorInterval = time.Second })
	d.plug(cardA, cardB)
	d.run()
	page := d.awaitSeries(`accelerator_sensor_temperature_celsius{card="3b:00.0",chip="",sensor="die"} 48.5`)
	for _, line := range []string{
		`accelerator_sensor_temperature_celsius{card="5e:00.0",chip="",sensor="hottest"} 41`,
		`accelerator_sensor_temperature_max_celsius{card="3b:00.0",chip="",sensor="hottest"} 75`,
		`accelerator_sensor_power_watts{card="3b:00.0",chip="",sensor="board"} 50.909`,
		`accelerator_sensor_failures_total{card="3b:00.0"} 0`,
	} {
		compare.Contains(t, "page", line+"\n", page)
	}
	compare.Equal(t, "series of two cards", 2*4, strings.Count(page, "\naccelerator_sensor_")-2) // without the failure counters
	state := must.Value(control.Dial(d.cfg.Socket).State(t.Context()))(t)
	compare.Equal(t, "sensors of a port", 3, len(state.Devices[0].Sensors))
	compare.Equal(t, "sensors of the other port of the card", 3, len(state.Devices[1].Sensors))
	compare.Equal(t, "first sensor", sensors.Die, state.Devices[0].Sensors[0].Name)

	must.Succeed(t, os.WriteFile(filepath.Join(d.node.Sys, "class/hwmon/hwmon2/temp1_input"), []byte("91500\n"), 0o600))
	d.awaitSeries(`accelerator_sensor_temperature_celsius{card="3b:00.0",chip="",sensor="die"} 91.5`)
	d.loader.Config.Sensors = "all"
	d.hangups <- syscall.SIGHUP
	d.awaitSeries(`accelerator_sensor_temperature_crit_celsius{card="5e:00.0",chip="dfl_fme_thermal",sensor="temp1"} 90`)
	d.loader.Config.Sensors = "none"
	d.hangups <- syscall.SIGHUP
	d.awaitNoSeries("accelerator_sensor_")
}
