package port

import (
	"cmp"
	"slices"

	"b-com.com/accelerator-device-plugin/inventory"
)

// Rows returns the health table of the cards with this layout, sorted by name.
func (l Layout) Rows() []inventory.Row {
	lines := slices.Clone(otherLines)
	for _, f := range slices.Concat(portFiles, l.Table.errors, l.Table.locked, l.Table.alarms, []file{managerFile}) {
		lines = append(lines, f.lines()...)
	}
	if l.Table.hwmon.path != "" {
		for _, a := range hwmonAlarms {
			lines = append(lines, a.line)
		}
	}
	for _, l := range links {
		lines = append(lines, l.slow)
	}
	for _, a := range aerCounters {
		lines = append(lines, a.line)
	}
	rows := make([]inventory.Row, len(lines))
	for i, l := range lines {
		rows[i] = inventory.Row{Name: l.reason, Health: l.health}
	}
	slices.SortFunc(rows, func(a, b inventory.Row) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}
