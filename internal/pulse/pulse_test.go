package pulse_test

import (
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/pulse"
)

func TestAlive(t *testing.T) {
	tests := []struct {
		name string
		do   func(*pulse.Pulse)
		want string
	}{
		{"one that waits is alive, however long", func(*pulse.Pulse) { time.Sleep(time.Hour) }, ""},
		{"work may take its time", func(p *pulse.Pulse) { p.Work(); time.Sleep(pulse.Patience) }, ""},
		{"but not for ever", func(p *pulse.Pulse) { p.Work(); time.Sleep(pulse.Patience + time.Second) }, "stuck for 11s"},
		{"from the first moment on", func(p *pulse.Pulse) { p.WorkSince(time.Time{}); time.Sleep(time.Minute) }, "stuck for 1m0s"},
		{"work within work is the same work", func(p *pulse.Pulse) {
			p.Work()
			time.Sleep(pulse.Patience)
			p.Work()
			time.Sleep(time.Second)
		}, "stuck for 11s"},
		{"it may have a rest", func(p *pulse.Pulse) {
			p.Work()
			time.Sleep(time.Hour)
			p.Rest()
			p.Work()
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pulse.New(pulse.Patience)
				test.do(p)
				got := ""
				if err := p.Alive(); err != nil {
					got = err.Error()
				}
				if got != test.want {
					t.Errorf("Alive() = %q, want %q", got, test.want)
				}
			})
		})
	}
}
