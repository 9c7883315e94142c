package port

import (
	"cmp"
	"slices"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// Rows returns the health table for cards with this layout, sorted by name.
func (l Layout) Rows() []inventory.Row {
	rows := slices.Concat(otherRows, pci.Rows())
	for _, f := range slices.Concat(portFiles, l.Table.errors, l.Table.locked, l.Table.alarms, []file{managerFile}) {
		rows = append(rows, f.rows()...)
	}
	if l.Table.hwmon.path != "" {
		for _, a := range hwmonAlarms {
			rows = append(rows, a.Row)
		}
	}
	slices.SortFunc(rows, func(a, b inventory.Row) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}
