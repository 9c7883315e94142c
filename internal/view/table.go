package view

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Formats are the names that [Print] takes, beside "" for the short table.
var Formats = []string{"json", "yaml", "wide"}

// Print writes rows in a format. Colours are for terminals.
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

// printYAML leaves the escaping of control characters to the encoder.
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
	{"RESOURCE", func(r Row) string { return r.Resource }},
	{"HEALTH", func(r Row) string { return r.Health }},
	{"NODES", func(r Row) string { return strings.Join(r.DeviceNodes, ",") }},
	{"HOLDER", func(r Row) string {
		if !r.HolderKnown {
			return "?"
		}
		return strings.Join(r.Holder, ",")
	}},
	{"REASONS", func(r Row) string { return strings.Join(r.Reasons, ",") }},
}

var wide = append(short[:len(short):len(short)],
	column{"FAMILY", func(r Row) string { return r.Family }},
	column{"PCI", func(r Row) string { return r.PCIAddress }},
	column{"NUMA", func(r Row) string { return optional(r.NUMANode) }},
	column{"PORT", func(r Row) string { return optional(r.PortID) }},
	column{"PARENT", func(r Row) string { return r.Parent }},
	column{"AFU", func(r Row) string { return r.AFUID }},
	column{"INTERFACE", func(r Row) string { return r.InterfaceID }},
)

func optional(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// printTable prints a heading and a line for each row. For text/tabwriter colour codes have a width,
// so all cells of a coloured column have codes of the same length, also its title.
func printTable(w io.Writer, rows []Row, columns []column, colour bool) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "no devices")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(health string, cell func(column) string) {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = cell(c)
			if colour && c.title == "HEALTH" {
				cells[i] = paint(health, cells[i])
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	line("", func(c column) string { return c.title })
	for _, r := range rows {
		line(r.Health, func(c column) string { return c.text(r) })
	}
	return t.Flush()
}

// text returns the cell as it is shown. It is escaped because names come from the kubelet
// and the kernel.
func (c column) text(r Row) string {
	return cmp.Or(terminal.Escape(c.cell(r)), "-")
}

// paint colours text for a health on a terminal, or gives it the terminal's own colour if the
// health is "".
func paint(health, text string) string {
	colour := "31"
	switch health {
	case "":
		colour = "39"
	case "healthy":
		colour = "32"
	case "degraded":
		colour = "33"
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
