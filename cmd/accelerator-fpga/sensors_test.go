package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/programming/fpga"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const sensorsOfBoard = `
-- sys/class/hwmon/hwmon0 -> ../../devices/0000:01:00.0/hwmon/hwmon0 --
-- sys/devices/0000:01:00.0/hwmon/hwmon0/name --
bmc
-- sys/devices/0000:01:00.0/hwmon/hwmon0/in0_crit --
13000
-- sys/devices/0000:01:00.0/hwmon/hwmon0/in0_input --
12100
-- sys/devices/0000:01:00.0/hwmon/hwmon0/curr1_input --
1 mA
-- sys/devices/0000:01:00.0/hwmon/hwmon0/curr1_max --
2500
-- sys/devices/0000:01:00.0/hwmon/hwmon0/power1_input --
50000000
-- sys/devices/0000:01:00.0/hwmon/hwmon0/power1_max --
60000000
-- sys/devices/0000:01:00.0/hwmon/hwmon0/temp1_crit --
100000
-- sys/devices/0000:01:00.0/hwmon/hwmon0/temp1_input --
43500
-- sys/devices/0000:01:00.0/hwmon/hwmon0/temp1_label --
FPGA Die Temperature
-- sys/devices/0000:01:00.0/hwmon/hwmon0/temp1_max --
90000
-- sys/devices/0000:01:00.0/hwmon/hwmon0/temp2_input --
`

func TestSensors(t *testing.T) {
	root := t.TempDir()
	must.Succeed(t, board.UnfoldText(root, []byte(sensorsOfBoard)))
	host := fpga.Host{Sys: root + "/sys"}
	rows := must.Value(sensorRows(t.Context(), host, "0000:01:00.0"))(t)
	var out bytes.Buffer
	table := terminal.NewTable(&out)
	sensorLines(table, rows, "no answer")
	must.Succeed(t, table.Flush())
	dir := root + "/sys/devices/0000:01:00.0/hwmon/hwmon0/"
	want := `bmc/curr1                 unreadable: ` + dir + `curr1_input: found "1 mA", want a number: not a value of a sensor
bmc/power1                50 W (max 60)
bmc/FPGA Die Temperature  43.5 °C (max 90, crit 100)
bmc/temp2                 no value
bmc/in0                   12.1 V (crit 13)
sensors                   unreadable: no answer
`
	compare.Values(t, "table", want, out.String())
	compare.Equal(t, "limit of the sensor that cannot be read", 2.5, rows[0].Max)

	// A card that doesn't respond doesn't keep the command from exiting.
	must.Succeed(t, os.Remove(dir+"temp1_input"))
	must.Succeed(t, syscall.Mkfifo(dir+"temp1_input", 0o600))
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("no answer")
	cancel(late)
	_, err := sensorRows(ctx, host, "0000:01:00.0")
	compare.ErrorIs(t, "error", late, err)
	writer := must.Value(os.OpenFile(dir+"temp1_input", os.O_WRONLY, 0))(t) // unblocks the read
	must.Succeed(t, writer.Close())
}
