package port

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// healthFile is an attribute that holds a mask and says how the port is.
type healthFile struct {
	name  string           // relative to the port
	lost  inventory.Health // how bad it is when it was there and cannot be read
	legal []uint64         // the values that there are; nil: any
	dead  uint64           // what a card that does not answer reads
	rules []rule
}

// rule gives a port a condition when mask of the value reads want.
type rule struct {
	mask, want uint64
	reason     string
	health     inventory.Health
}

const wholeValue = ^uint64(0)

// healthFiles are the files that are judged and what their values mean. A file's
// lost is that of its worst rule: what cannot be read may be just that.
//
// Bits: dfl-afu-error.c and dfl-afu.h of the kernel (port errors), PORT_STS
// (power_state: 1 and 2 are AP1 and AP2, 6 is AP6, wholly throttled).
var healthFiles = []healthFile{
	{name: "errors/errors", lost: inventory.Unhealthy, dead: ^uint64(0), rules: []rule{
		{mask: 1 << 50, want: 1 << 50, reason: "port-ap6", health: inventory.Unhealthy},
	}},
	{name: "power_state", lost: inventory.Unhealthy, legal: []uint64{0, 1, 2, 6}, dead: 0xf, rules: []rule{
		{mask: wholeValue, want: 6, reason: "power-throttled=6", health: inventory.Unhealthy},
	}},
}

// judge reads the health file in the port's directory dir and adds to p what it
// says. All ones are what a card reads that does not answer: where its AFU has
// said so already, they say nothing more. The result is whether this file alone
// tells that the card is dead, which those without AFU id have no other way to.
func (f healthFile) judge(p *inventory.Port, dir string, dead bool) bool {
	value, err := sysfs.ReadAs(dir+"/"+f.name, sysfs.ParseMask)
	absent := errors.Is(err, fs.ErrNotExist)
	p.Files = append(p.Files, inventory.HealthFile{Name: f.name, Absent: absent, Lost: f.lost})
	switch {
	case absent:
		return false
	case err == nil && dead && value == f.dead:
		return false
	case err == nil && f.legal != nil && !slices.Contains(f.legal, value):
		err = fmt.Errorf("%s/%s: found %#x, want one of %#x", dir, f.name, value, f.legal)
	}
	if err != nil {
		p.Conditions = append(p.Conditions, unreadable(f.name, f.lost, err))
		return f.legal != nil && value == f.dead
	}
	for _, r := range f.rules {
		if value&r.mask == r.want {
			p.Conditions = append(p.Conditions, inventory.Condition{Reason: r.reason, Health: r.health})
		}
	}
	return false
}

func unreadable(file string, health inventory.Health, err error) inventory.Condition {
	return inventory.Condition{Reason: inventory.ReasonUnreadable + "=" + file, Health: health, Err: err}
}

func unhealthy(reason string, err error) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: inventory.Unhealthy, Err: err}
}
