package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Change is the difference between two lists, for one device.
type Change struct {
	Time string `json:"time"` // RFC 3339 with milliseconds
	What string `json:"what"` // added, removed, changed
	Row
}

// Changes compares two lists of rows. What is removed comes first, then the rest
// in the order of ids.
func Changes(old, new []Row, time string) []Change {
	before, after := byID(old), byID(new)
	var changes []Change
	for _, r := range old {
		if _, ok := after[r.ID]; !ok {
			changes = append(changes, Change{time, "removed", r})
		}
	}
	for _, r := range new {
		was, ok := before[r.ID]
		switch {
		case !ok:
			changes = append(changes, Change{time, "added", r})
		case !reflect.DeepEqual(was, r):
			changes = append(changes, Change{time, "changed", r})
		}
	}
	return changes
}

func byID(rows []Row) map[string]Row {
	m := make(map[string]Row, len(rows))
	for _, r := range rows {
		m[r.ID] = r
	}
	return m
}

// idWidth keeps the columns of lines straight that are printed one by one: it
// holds an id outside PCI domain 0, or one with a port (DDDD:BB:DD.F, BB:DD.F-pN).
const idWidth = 14

// JSON returns the change as one line of JSON, which is safe to show on a terminal.
func (c Change) JSON() ([]byte, error) {
	text, err := json.Marshal(c)
	return append(terminal.AppendJSON(nil, text), '\n'), err
}

// Line returns the change as one line for people.
func (c Change) Line(colour bool) string {
	health := fmt.Sprintf("%-9s", c.Health)
	switch {
	case c.What == "removed":
		health = fmt.Sprintf("%-9s", "-")
	case colour:
		health = Paint(c.Health, health)
	}
	details := []string{}
	for _, d := range []struct{ name, value string }{
		{"reasons", strings.Join(c.Reasons, ",")},
		{"nodes", strings.Join(c.DeviceNodes, ",")},
		{"afu", c.AFUID},
		{"holder", strings.Join(c.Holder, ",")},
	} {
		if d.value != "" {
			details = append(details, d.name+"="+terminal.Escape(d.value))
		}
	}
	return strings.TrimRight(fmt.Sprintf("%s  %-7s  %-*s  %s  %s  %s", c.Time, c.What, idWidth, terminal.Escape(c.ID), health, cmp.Or(terminal.Escape(c.Resource), "-"), strings.Join(details, " ")), " ")
}
