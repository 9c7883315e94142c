package view

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Formats lists the formats that [Print] accepts, in addition to "", which is the short table.
var Formats = []string{"json", "yaml", "wide"}

// Print writes rows in the given format. If colour is true, tables are in colour.
func Print(w io.Writer, rows []Row, format string, colour bool) error {
	switch format {
	case "json":
		return terminal.WriteJSON(w, rows)
	case "yaml":
		return printYAML(w, rows)
	case "wide":
		return printTable(w, rows, wide, colour)
	}
	return printTable(w, rows, short, colour)
}

// printYAML writes rows as YAML. The encoder escapes control characters.
func printYAML(w io.Writer, rows []Row) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(rows); err != nil {
		return err
	}
	return e.Close()
}

// column is one column of a table.
type column struct {
	title string
	cell  func(Row) string
}

var short = []column{
	{"ID", func(r Row) string { return r.ID }},
	{"HEALTH", func(r Row) string { return r.Health }},
	{"HOLDER", Row.holders},
	{"REASONS", func(r Row) string { return strings.Join(r.Reasons, ",") }},
	{"NODES", func(r Row) string { return strings.Join(r.DeviceNodes, ",") }},
	resource,
}

// resource is always the last column, because in af mode its values are 69 characters long.
var resource = column{"RESOURCE", func(r Row) string { return r.Resource }}

var wide = append(short[:len(short)-1:len(short)-1],
	column{"FAMILY", func(r Row) string { return r.Family }},
	column{"PCI", func(r Row) string { return r.PCIAddress }},
	column{"NUMA", func(r Row) string { return optional(r.NUMANode) }},
	column{"PORT", func(r Row) string { return optional(r.PortID) }},
	column{"PARENT", func(r Row) string { return r.Parent }},
	column{"AFU", func(r Row) string { return r.AFUID }},
	column{"INTERFACE", func(r Row) string { return r.InterfaceID }},
	column{"PCI-ID", func(r Row) string { return r.PCIID }},
	column{"SUBSYSTEM", func(r Row) string { return r.Subsystem }},
	column{"MEMBERS", func(r Row) string { return strings.Join(r.Members, ",") }},
	column{"ATTRIBUTES", func(r Row) string {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(r.Attributes)) {
			all = append(all, name+"="+r.Attributes[name])
		}
		return strings.Join(all, ",")
	}},
	column{"SENSORS", func(r Row) string {
		var all []string
		for _, s := range r.Sensors {
			if s.Chip == "" { // only the summary; there are too many other sensors for a table
				all = append(all, s.Name+"="+strconv.FormatFloat(s.Value, 'g', 4, 64)+s.Kind.Unit())
			}
		}
		return strings.Join(all, ",")
	}},
	resource,
)

func optional(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// printTable prints a heading, followed by a line for each row.
func printTable(w io.Writer, rows []Row, columns []column, colour bool) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "no devices")
		return err
	}
	t := terminal.NewTable(w)
	if colour {
		t.Colour = func(i int, cell string) string {
			switch {
			case columns[i].title != "HEALTH":
				return ""
			case cell == "HEALTH":
				return terminal.Usual
			}
			return colourOf(cell)
		}
	}
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.title
	}
	t.Line(cells...)
	for _, r := range rows {
		for i, c := range columns {
			cells[i] = c.cell(r)
		}
		t.Line(cells...)
	}
	return t.Flush()
}

// colourOf returns the colour for a health value.
func colourOf(health string) string {
	switch health {
	case "healthy":
		return terminal.Green
	case "degraded":
		return terminal.Yellow
	}
	return terminal.Red
}
