package deviceplugin_test

import (
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
	"b-com.com/accelerator-device-plugin/test/must"
)

// The daemon shows the sensors of its cards in the metrics and at the socket, until the settings say otherwise. If one
// card hangs, neither the other card nor the devices of the first are affected, and the daemon can still end.
func TestSensors(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, func(c *config.Config) { c.SensorInterval = time.Second })
	d.plug(cardA, cardB)
	file := func(hwmon, name string) string { return filepath.Join(d.node.Sys, "class/hwmon", hwmon, name) }
	set := func(value string) {
		must.Succeed(t, os.WriteFile(file("hwmon2", "temp1_input"), []byte(value+"\n"), 0o600))
	}
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
	compare.Equal(t, "series of two cards", 2*4, strings.Count(page, "\naccelerator_sensor_")-2) // without the counters of failures
	state := must.Value(control.Dial(d.cfg.Socket).State(t.Context()))(t)
	compare.Equal(t, "sensors of a port", 3, len(state.Devices[0].Sensors))
	compare.Equal(t, "sensors of the other port of the card", 3, len(state.Devices[1].Sensors))
	compare.Equal(t, "first sensor", sensors.Die, state.Devices[0].Sensors[0].Name)

	set("91500")
	d.awaitSeries(`accelerator_sensor_temperature_celsius{card="3b:00.0",chip="",sensor="die"} 91.5`)
	set("garbage")
	d.awaitNoSeries(`accelerator_sensor_failures_total{card="3b:00.0"} 0`)
	d.awaitSeries(`accelerator_sensor_temperature_celsius{card="3b:00.0",chip="",sensor="die"} 47`) // the value of the FME
	d.awaitLine("sensors.failed", "0000:3b:00.0", "temp1_input", "garbage")
	set("48500")
	d.awaitLine("sensors.read", "0000:3b:00.0")

	d.loader.Config.Sensors = "all"
	d.hangups <- syscall.SIGHUP
	d.awaitSeries(`accelerator_sensor_temperature_crit_celsius{card="5e:00.0",chip="dfl_fme_thermal",sensor="temp1"} 90`)
	d.loader.Config.Sensors = "none"
	d.hangups <- syscall.SIGHUP
	d.awaitNoSeries("accelerator_sensor_")

	must.Succeed(t, os.Remove(file("hwmon0", "temp1_input")))
	must.Succeed(t, syscall.Mkfifo(file("hwmon0", "temp1_input"), 0o600))
	hangs, err := filepath.EvalSymlinks(file("hwmon0", "temp1_input"))
	must.Succeed(t, err)
	d.loader.Config.Sensors = "main"
	d.hangups <- syscall.SIGHUP
	d.awaitSeries(`accelerator_sensor_temperature_celsius{card="5e:00.0",chip="",sensor="die"} 48.5`)
	d.await("a sensor hangs", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	d.do(d.stop())
	writer := must.Value(os.OpenFile(hangs, os.O_WRONLY|syscall.O_NONBLOCK, 0))(t) // ends the reading, which has been left behind
	must.Succeed(t, writer.Close())
}
