package port

import (
	"cmp"
	"maps"
	"slices"

	"b-com.com/accelerator-device-plugin/inventory"
)

// Row is one line of the health table, as people know it.
type Row struct {
	Name   string           // NAME=VALUE; NAME where that is all there is, or the values are open
	Health inventory.Health // how bad it makes a device, where the operator says nothing else
	Source string           // where it is read, and what is found there
}

// Rows returns the health table, sorted by name: all that an operator may
// overrule. Conditions name the line that they come from ([inventory.Condition]).
func Rows() []Row {
	rows := rowSet{}
	for _, r := range sources {
		rows.add(line{r.Name, r.Health}, r.Source)
	}
	for _, f := range slices.Concat(portFiles, DFL.errors, DFL.locked, DFL.alarms, OPAE.errors, OPAE.locked, OPAE.alarms, []file{managerFile}) {
		f.lines(func(l line, when string) { rows.add(l, f.name+": "+when) })
	}
	for _, a := range hwmonAlarms {
		rows.add(a.line, DFL.hwmon.name+"/*"+a.suffix+": 1")
	}
	for _, l := range links {
		rows.add(l.slow, l.now+": less than "+l.most+" and "+l.slot)
	}
	for _, a := range aerCounters {
		rows.add(a.line, a.name+": rises")
	}
	return slices.SortedFunc(maps.Values(rows), func(a, b Row) int { return cmp.Compare(a.Name, b.Name) })
}

// rowSet is a health table by name.
type rowSet map[string]Row

// add adds a line, or one more source of a line.
func (rows rowSet) add(l line, source string) {
	r, ok := rows[l.reason]
	if ok && r.Source != source {
		source = r.Source + "; " + source
	}
	rows[l.reason] = Row{Name: l.reason, Health: l.health, Source: source}
}
