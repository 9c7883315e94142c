package view

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

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

// printTable aligns columns by hand: colour codes have no width on a terminal,
// but would have one for text/tabwriter.
func printTable(w io.Writer, rows []Row, columns []column, colour bool) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "no devices")
		return err
	}
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = len(c.title)
		for _, r := range rows {
			widths[i] = max(widths[i], len(c.text(r)))
		}
	}
	var b strings.Builder
	line := func(cell func(column) string, paint func(column, string) string) {
		for i, c := range columns {
			text := fmt.Sprintf("%-*s", widths[i], cell(c))
			if i == len(columns)-1 {
				text = strings.TrimRight(text, " ")
			} else {
				text += "  "
			}
			b.WriteString(paint(c, text))
		}
		b.WriteByte('\n')
	}
	line(func(c column) string { return c.title }, func(_ column, text string) string { return text })
	for _, r := range rows {
		line(func(c column) string { return c.text(r) }, func(c column, text string) string {
			if colour && c.title == "HEALTH" {
				return Paint(r.Health, text)
			}
			return text
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// text returns the cell as it is shown. It is escaped because names come from the kubelet
// and the kernel.
func (c column) text(r Row) string {
	return cmp.Or(terminal.Escape(c.cell(r)), "-")
}

// Paint colours text for a health on a terminal.
func Paint(health, text string) string {
	switch health {
	case "healthy":
		return "\x1b[32m" + text + "\x1b[0m"
	case "degraded":
		return "\x1b[33m" + text + "\x1b[0m"
	}
	return "\x1b[31m" + text + "\x1b[0m"
}
