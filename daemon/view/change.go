package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Change describes how one device differs between two lists.
type Change struct {
	Time string `json:"time"` // RFC 3339 with milliseconds
	What string `json:"what"` // added, removed or changed
	Row
}

// Changes returns the changes between two lists of rows: first the removed devices, in their old order, and then the
// other changes, in the new order.
func Changes(before, after []Row, time string) []Change {
	var all []Change
	old, now := byID(before), byID(after)
	for _, r := range before {
		if _, ok := now[r.ID]; !ok {
			all = append(all, Change{time, "removed", r})
		}
	}
	for _, r := range after {
		was, ok := old[r.ID]
		switch {
		case !ok:
			all = append(all, Change{time, "added", r})
		case !equal(was, r):
			all = append(all, Change{time, "changed", r})
		}
	}
	return all
}

// equal reports whether two rows are equal except for sensor values, which change all the time.
func equal(a, b Row) bool {
	a.Sensors, b.Sensors = nil, nil
	return reflect.DeepEqual(a, b)
}

func byID(rows []Row) map[string]Row {
	all := make(map[string]Row, len(rows))
	for _, r := range rows {
		all[r.ID] = r
	}
	return all
}

// idWidth is the width of the id column. It is fixed because lines are printed one by one. An id fits if it has either
// a PCI domain or a port (DDDD:BB:DD.F, BB:DD.F-pN), but not if it has both.
const idWidth = 14

// JSON returns the change as a line of JSON that is safe to show on a terminal.
func (c Change) JSON() ([]byte, error) {
	text, err := json.Marshal(c)
	return append(terminal.AppendJSON(nil, text), '\n'), err
}

// Line returns the change as a line of text.
func (c Change) Line(colour bool) string {
	health := fmt.Sprintf("%-9s", c.Health)
	switch {
	case c.What == "removed":
		health = fmt.Sprintf("%-9s", "-")
	case colour:
		health = colourOf(c.Health) + health + terminal.Plain
	}
	details := []string{}
	for _, d := range []struct{ name, value string }{
		{"reasons", strings.Join(c.Reasons, ",")},
		{"nodes", strings.Join(c.DeviceNodes, ",")},
		{"afu", c.AFUID},
		{"holder", c.holders()},
	} {
		if d.value != "" {
			details = append(details, d.name+"="+terminal.Escape(d.value))
		}
	}
	id, resource := terminal.Escape(c.ID), cmp.Or(terminal.Escape(c.Resource), "-")
	line := fmt.Sprintf("%s  %-7s  %-*s  %s  %s  %s", c.Time, c.What, idWidth, id,
		health, resource, strings.Join(details, " "))
	return strings.TrimRight(line, " ")
}
