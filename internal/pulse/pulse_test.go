package pulse_test

import (
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/pulse"
	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestAlive(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*pulse.Pulse)
		want string
	}{
		{"waits for an hour", func(*pulse.Pulse) { time.Sleep(time.Hour) }, ""},
		{"works as long as allowed", func(p *pulse.Pulse) { p.Work(); time.Sleep(pulse.Patience) }, ""},
		{"works longer than allowed", func(p *pulse.Pulse) { p.Work(); time.Sleep(pulse.Patience + time.Second) }, "stuck for 11s"},
		{"works since before New", func(p *pulse.Pulse) { p.WorkSince(time.Time{}); time.Sleep(time.Minute) }, "stuck for 1m0s"},
		{"second Work has no effect", func(p *pulse.Pulse) {
			p.Work()
			time.Sleep(pulse.Patience)
			p.Work()
			time.Sleep(time.Second)
		}, "stuck for 11s"},
		{"rests in between", func(p *pulse.Pulse) {
			p.Work()
			time.Sleep(time.Hour)
			p.Rest()
			p.Work()
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pulse.New(pulse.Patience)
				test.do(p)
				got := ""
				if err := p.Alive(); err != nil {
					got = err.Error()
				}
				compare.Equal(t, "Alive", test.want, got)
			})
		})
	}
}
