package port

import (
	"errors"
	"io/fs"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// healthFile is an attribute that holds a mask and says how the port is.
type healthFile struct {
	name  string           // relative to the port
	lost  inventory.Health // how bad it is when it was there and cannot be read
	rules []rule
}

// rule gives a port a condition when mask of the value reads want.
type rule struct {
	mask, want uint64
	reason     string
	health     inventory.Health
}

const (
	wholeValue = ^uint64(0)
	deadValue  = ^uint64(0) // what 64 bits of a card that does not answer read
)

// healthFiles are the files that are judged and what their values mean. A file's
// lost is that of its worst rule: what cannot be read may be just that.
//
// Bits: dfl-afu-error.c and dfl-afu.h of the kernel (port errors), PORT_STS
// (power_state: 1 and 2 are AP1 and AP2, 6 is AP6, wholly throttled).
var healthFiles = []healthFile{
	{name: "errors/errors", lost: inventory.Unhealthy, rules: []rule{
		{mask: 1 << 50, want: 1 << 50, reason: inventory.ReasonPortAP6, health: inventory.Unhealthy},
	}},
	{name: "power_state", lost: inventory.Unhealthy, rules: []rule{
		{mask: wholeValue, want: 6, reason: inventory.ReasonPowerThrottled + "=6", health: inventory.Unhealthy},
	}},
}

// judge reads the health file in the port's directory dir and adds to p what it
// says. Where the AFU is dead, a value of all ones says the same once more and
// is not taken for a set of errors.
func (f healthFile) judge(p *inventory.Port, dir string, dead bool) {
	value, err := sysfs.ReadAs(dir+"/"+f.name, sysfs.ParseMask)
	absent := errors.Is(err, fs.ErrNotExist)
	p.Files = append(p.Files, inventory.HealthFile{Name: f.name, Absent: absent, Lost: f.lost})
	switch {
	case absent:
		return
	case err != nil:
		p.Conditions = append(p.Conditions, unreadable(f.name, f.lost, err))
		return
	case dead && value == deadValue:
		return
	}
	for _, r := range f.rules {
		if value&r.mask == r.want {
			p.Conditions = append(p.Conditions, inventory.Condition{Reason: r.reason, Health: r.health})
		}
	}
}

func unreadable(file string, health inventory.Health, err error) inventory.Condition {
	return inventory.Condition{Reason: inventory.ReasonUnreadable + "=" + file, Health: health, Err: err}
}

func unhealthy(reason string, err error) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: inventory.Unhealthy, Err: err}
}
