package rows

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Column is a column of a table.
type Column struct {
	Title string
	Cell  func(Row) string
}

// key returns a column that shows the value of one of a row's keys.
func key(title, name string) Column {
	return Column{title, func(r Row) string { return Text(r[name]) }}
}

// Columns of the tables. A column that can be long comes last.
var (
	DeviceColumns = []Column{key("NODE", "node"), key("ID", "id"), health, {"HOLDER", Holder}, key("RESOURCE", "resource"), reasons}
	WideDevices   = []Column{
		key("NODE", "node"), key("ID", "id"), health, {"HOLDER", Holder}, key("RESOURCE", "resource"),
		key("NODES", "deviceNodes"), key("FAMILY", "family"), key("PCI-ID", "pciId"), key("NUMA", "numaNode"), key("AFU", "afuId"),
		{"CORDON", Cordon}, key("API", "api"), key("VERSION", "version"), pod, reasons,
	}
	FlapColumns = []Column{
		key("NODE", "node"), key("CARD", "card"), {"FAILURES", failures}, key("TOTAL", "failures"), key("REMOVALS", "removals"),
		{"LAST", last}, health, reasons,
	}
	WideFlaps = append(FlapColumns[:len(FlapColumns)-1:len(FlapColumns)-1], key("API", "api"), key("VERSION", "version"), pod, reasons)
)

var (
	health = Column{"HEALTH", func(r Row) string {
		if r["error"] != nil {
			return "unknown"
		}
		return Text(r["health"])
	}}
	reasons = Column{"REASONS", func(r Row) string {
		if r["error"] != nil {
			return Text(r["error"])
		}
		if c, _ := r["cordon"].(map[string]any); r["health"] == "absent" && c != nil {
			return "cordoned by " + text(c["by"])
		}
		all, _ := r["reasons"].([]any)
		rules, _ := r["taintRules"].([]any)
		for _, rule := range rules {
			all = append(all[:len(all):len(all)], "DeviceTaintRule/"+text(rule))
		}
		return Text(all)
	}}
	pod = Column{"POD", func(r Row) string { return strings.Trim(Text(r["namespace"])+"/"+Text(r["pod"]), "/") }}
)

// Holder returns the containers that hold a device, formatted as in the daemon's devices command.
func Holder(r Row) string {
	switch {
	case r["error"] != nil:
		return ""
	case r["holderKnown"] != true:
		return "?"
	case Text(r["holder"]) == "" && r["held"] == true:
		return "not named yet"
	}
	return Text(r["holder"])
}

// Cordon returns who cordoned a device and why.
func Cordon(r Row) string {
	c, _ := r["cordon"].(map[string]any)
	if c == nil {
		return ""
	}
	return text(c["by"]) + ": " + text(c["why"])
}

func failures(r Row) string {
	if r["moreFailures"] == true {
		return Text(r["failuresSince"]) + "+"
	}
	return Text(r["failuresSince"])
}

func last(r Row) string {
	at, err := time.Parse(time.RFC3339, text(r["last"]))
	if err != nil {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04")
}

// Text formats a JSON value for a cell.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		texts := make([]string, len(v))
		for i, e := range v {
			texts[i] = Text(e)
		}
		return strings.Join(texts, ",")
	case map[string]any:
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			texts = append(texts, name+"="+Text(v[name]))
		}
		return strings.Join(texts, ",")
	}
	return fmt.Sprint(v)
}

// Print prints a table, in colour if colour is true. If there are no rows, it doesn't print anything.
func Print(w io.Writer, all []Row, columns []Column, colour bool) error {
	if len(all) == 0 {
		return nil
	}
	t := terminal.NewTable(w)
	if colour {
		t.Colour = func(i int, cell string) string {
			switch {
			case columns[i].Title != "HEALTH":
				return ""
			case cell == "HEALTH":
				return terminal.Usual
			case cell == "healthy":
				return terminal.Green
			case cell == "degraded":
				return terminal.Yellow
			}
			return terminal.Red
		}
	}
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.Title
	}
	t.Line(cells...)
	for _, r := range all {
		for i, c := range columns {
			cells[i] = c.Cell(r)
		}
		t.Line(cells...)
	}
	return t.Flush()
}
