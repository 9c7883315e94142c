package fpga_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"b-com.com/accelerator-device-plugin/programming/fpga"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// sensor is the board's only temperature sensor, the FPGA's. It reads 47 °C, with limits of 93 and 90 °C.
const sensor = "hwmon/hwmon0/temp1"

// No request is sent to a card that is too hot. The error contains the sensor, its reading, the limit and the flag.
func TestTemperature(t *testing.T) {
	byNumber := func(die float64) fpga.MaxTemperature { return fpga.MaxTemperature{Die: die} }
	var board fpga.MaxTemperature
	for _, tt := range []struct {
		name   string
		max    fpga.MaxTemperature
		change func(*rig)
		want   string // substring of the error; "": the card is programmed
	}{
		{"cool", board, nil, ""},
		{"a degree below the warning limit", board, func(r *rig) { r.write(sensor+"_input", "92000\n") }, ""},
		{"at the warning limit", board, func(r *rig) { r.write(sensor+"_input", "93000\n") },
			"card 01:00.0, port 0: too hot: 93 °C (temp1 of dfl_fme_thermal), want less than 93 °C: check the cooling of the node, or use --max-temperature"},
		{"no warning limit, at the critical one", board, func(r *rig) { r.write(sensor+"_max", "0\n"); r.write(sensor+"_input", "90500\n") }, "too hot: 90.5 °C"},
		{"no limits", board, func(r *rig) {
			r.write(sensor+"_max", "0\n")
			r.write(sensor+"_crit", "0\n")
			r.write(sensor+"_input", "120000\n")
		}, ""},
		{"hot, but allowed", fpga.MaxTemperature{Off: true}, func(r *rig) { r.write(sensor+"_input", "93000\n") }, ""},
		{"garbage", board, func(r *rig) { r.write(sensor+"_input", "hot\n") }, ""},
		{"no sensors", board, (*rig).withoutSensors, ""},
		{"below the number", byNumber(48), nil, ""},
		{"at the number", byNumber(47), nil, "too hot: 47 °C (temp1), want less than 47 °C"},
		{"below the number, at the warning limit", byNumber(150), func(r *rig) { r.write(sensor+"_input", "93000\n") }, "want less than 93 °C"},
		{"number, no limits", byNumber(48), func(r *rig) { r.write(sensor+"_max", "0\n"); r.write(sensor+"_crit", "0\n") }, ""},
		{"number, garbage", byNumber(48), func(r *rig) { r.write(sensor+"_input", "hot\n") },
			`the temperature of the FPGA is not known (`},
		{"number, limit garbage", byNumber(48), func(r *rig) { r.write(sensor+"_max", "hot\n") }, ""},
		{"number, all garbage", byNumber(48), func(r *rig) { r.write(sensor+"_max", "hot\n"); r.write(sensor+"_input", "hot\n") },
			`temp1_max: found "hot", want a number`},
		{"number, not measured", byNumber(48), func(r *rig) { r.write(sensor+"_input", "0\n") }, `the temperature of the FPGA is not known (`},
		{"limits that nobody has set", board, func(r *rig) { r.write(sensor+"_max", "-40000\n"); r.write(sensor+"_crit", "-1\n") }, ""},
		{"number, no sensors", byNumber(48), (*rig).withoutSensors, "the temperature of the FPGA is not known (no sensor), want less than 48 °C (--max-temperature)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "kernel-6.1-one-card")
			if tt.change != nil {
				tt.change(r)
			}
			r.p.Max = tt.max
			r.answer = func(unsafe.Pointer) error { r.write("afu_id", otherAFU); return nil }
			card, port := r.card("01:00.0")
			err := r.p.Program(t.Context(), card, port, r.gbs(pac, otherAFU))
			if (err != nil) != (tt.want != "") || !strings.Contains(fmt.Sprint(err), tt.want) || strings.Contains(fmt.Sprint(err), "\n") {
				t.Errorf("error %v, want one line with %q", err, tt.want)
			}
			compare.Equal(t, "programmed", tt.want == "", len(r.requests) == 1)
		})
	}
}

func (r *rig) withoutSensors() { must.Succeed(r.t, os.RemoveAll(r.host.Sys+"/class/hwmon")) }

// A port that already has the AFU isn't programmed, so its temperature doesn't matter.
func TestTemperatureOfLoadedCard(t *testing.T) {
	r := newRig(t, "kernel-6.1-one-card")
	r.write(sensor+"_input", "93000\n")
	card, port := r.card("01:00.0")
	if err := r.p.Program(t.Context(), card, port, r.gbs(pac, afu)); !errors.Is(err, fpga.ErrLoaded) {
		t.Errorf("error %v, want %v", err, fpga.ErrLoaded)
	}
}

// A sensor that doesn't respond delays programming by 2 s. The card is rejected for that only if a maximum was given as
// a number.
func TestTemperatureHangs(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the runtime has ended"))
	for _, tt := range []struct {
		name string
		ctx  context.Context
		max  fpga.MaxTemperature
		want string
	}{
		{"board", t.Context(), fpga.MaxTemperature{}, ""},
		{"number", t.Context(), fpga.MaxTemperature{Die: 48}, "the temperature of the FPGA is not known (no answer within 2s), want less than 48 °C (--max-temperature)"},
		{"context", ended, fpga.MaxTemperature{}, "the runtime has ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "kernel-6.1-one-card")
			path := must.Value(filepath.Glob(r.host.Sys + "/devices/pci*/*/*/fpga_region/region*/dfl-fme.*/" + sensor + "_input"))(t)[0]
			must.Succeed(t, os.Remove(path))
			must.Succeed(t, syscall.Mkfifo(path, 0o600))
			card, _ := r.card("01:00.0")
			began := time.Now()
			err := tt.max.Check(tt.ctx, r.host, card)
			if (err != nil) != (tt.want != "") || err != nil && err.Error() != tt.want {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %s, want 2 s", took)
			}
			f := must.Value(os.OpenFile(path, os.O_RDWR, 0))(t) // unblocks the read
			f.Close()
		})
	}
}

func BenchmarkTemperature(b *testing.B) {
	for _, name := range []string{"n6001", "d5005"} {
		b.Run(name, func(b *testing.B) {
			root := b.TempDir()
			must.Succeed(b, board.Unfold(root, "../../internal/sensors/testdata/"+name+".txtar"))
			host := fpga.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
			card := fpga.Card{FMEAddress: map[string]string{"n6001": "0000:01:00.0", "d5005": "0000:05:00.0"}[name]}
			for b.Loop() {
				must.Succeed(b, (fpga.MaxTemperature{}).Check(b.Context(), host, card))
			}
		})
	}
}
