// Package docs makes the tables in docs/health.md available to programs.
package docs

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

//go:embed health.md
var health string

// Reason is a row in one of the tables of reasons in health.md.
type Reason struct {
	Names    []string // NAME or NAME=VALUE
	Device   string   // what the device is because of the reason: "unhealthy", …
	ReadFrom string
	Places   []string // the directories that the paths in ReadFrom are relative to
	Meaning  string   // what the reason means, and the remedy
	Sections []string // the sections of health.md that Meaning refers to, including their headings
}

var (
	row      = regexp.MustCompile("(?m)^\\| (`[a-z][^|]*) \\| ([^|]+) \\| ([^|]*?) *\\| ([^|]+) \\|$")
	name     = regexp.MustCompile("`([^`]+)`")
	emphasis = regexp.MustCompile(`(^|\s)\*(\w[^*]*)\*`)
	link     = regexp.MustCompile(`\[([^]]+)\]\(([^)#]*)(#[^)]*)?\)`)
	// place matches the beginning of a path. The alternatives after root/ are the port's files.
	place = regexp.MustCompile("`(mgmt/|fme/|pci/|slot/|root/)|`(?:afu_id|errors/errors|power_state)`|the port's directory")
)

// Reasons returns the rows of both tables, in order.
func Reasons() []Reason {
	_, tables, _ := strings.Cut(health, "\n## Read from the hardware\n")
	tables, _, _ = strings.Cut(tables, "\n### More about these reasons\n")
	places := placesIn(tables)
	var all []Reason
	for _, cells := range row.FindAllStringSubmatch(tables, -1) {
		r := Reason{Device: plain(cells[2]), ReadFrom: plain(cells[3]), Meaning: plain(cells[4])}
		of := ""
		for _, m := range name.FindAllStringSubmatch(cells[1], -1) {
			value, short := strings.CutPrefix(m[1], "=")
			if short {
				value = of + "=" + value
			}
			of, _, _ = strings.Cut(value, "=")
			r.Names = append(r.Names, value)
		}
		for _, m := range place.FindAllStringSubmatch(cells[3], -1) {
			if dir := cmp.Or(places[m[1]], places["the port"]); !slices.Contains(r.Places, dir) {
				r.Places = append(r.Places, dir)
			}
		}
		for _, m := range link.FindAllStringSubmatch(cells[2]+cells[3]+cells[4], -1) {
			if text := section(m[3]); m[2] == "" && text != "" && !slices.Contains(r.Sections, text) {
				r.Sections = append(r.Sections, text)
			}
		}
		all = append(all, r)
	}
	return all
}

// placesIn returns the items of the list before the first table, by name: "the port", "fme/" and so on.
func placesIn(section string) map[string]string {
	list, _, _ := strings.Cut(section, "\n| ")
	_, list, _ = strings.Cut(list, "\n- ")
	list, _, _ = strings.Cut(list, "\n\n")
	places := make(map[string]string)
	for item := range strings.SplitSeq(list, "\n- ") {
		text := plain(strings.ReplaceAll(item, "\n  ", " "))
		name, _, _ := strings.Cut(text, ": ")
		places[name] = text
	}
	return places
}

// Explain returns the rows about a reason, which is NAME or NAME=VALUE: the rows that have exactly this reason or, if
// there are none, those that have its NAME. For recovering=NAME, these are followed by the rows about NAME.
func Explain(reason string) (found []Reason) {
	of := func(r string) string { name, _, _ := strings.Cut(r, "="); return name }
	for _, same := range []func(string) bool{
		func(n string) bool { return n == reason },
		func(n string) bool { return of(n) == of(reason) },
	} {
		for _, r := range Reasons() {
			if slices.ContainsFunc(r.Names, same) {
				found = append(found, r)
			}
		}
		if found != nil {
			break
		}
	}
	if name, recovering := strings.CutPrefix(reason, "recovering="); recovering {
		found = append(found, Explain(name)...)
	}
	return found
}

// Text returns the text of all rows about a reason. If reason is "", it returns a table of all reasons.
func Text(reason string) (string, error) {
	var out strings.Builder
	if reason == "" {
		table := terminal.NewTable(&out)
		table.Line("REASON", "THE DEVICE IS")
		for _, r := range Reasons() {
			for _, n := range r.Names {
				table.Line(n, r.Device)
			}
		}
		err := table.Flush()
		return out.String(), err
	}
	found := Explain(strings.ToLower(reason))
	if found == nil {
		near := slices.DeleteFunc(Names(), func(n string) bool { return !strings.HasPrefix(n, strings.ToLower(reason[:min(len(reason), 4)])) })
		similar := ""
		if len(near) > 0 {
			similar = "; similar: " + strings.Join(near, ", ")
		}
		return "", fmt.Errorf("REASON: found %q, want one that explain lists if you leave out REASON%s", reason, similar)
	}
	var parts []string
	for _, r := range found {
		text := fmt.Sprintf("%s: the device is %s\n", strings.Join(r.Names, ", "), r.Device)
		if r.ReadFrom != "" {
			text += "Read from: " + r.ReadFrom + "\n"
			if len(r.Places) > 0 {
				text += "Directories for card 3b:00.0:\n"
			}
			for _, dir := range r.Places {
				text += "  " + dir + "\n"
			}
		}
		parts = append(parts, text+"\n"+r.Meaning+"\n")
	}
	for _, r := range found {
		for _, s := range r.Sections {
			if part := "--- " + s + "\n"; !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	return strings.Join(parts, "\n"), nil
}

// Names returns the NAMEs of all reasons, in the same order as in the tables.
func Names() (names []string) {
	for _, r := range Reasons() {
		for _, n := range r.Names {
			if name, _, _ := strings.Cut(n, "="); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// section returns the section of health.md with this anchor, without subsections, or "" if it is a table of reasons.
func section(anchor string) string {
	for part := range strings.SplitSeq("\n"+health, "\n#") {
		title, text, _ := strings.Cut(strings.TrimLeft(part, "# "), "\n")
		if "#"+strings.ReplaceAll(strings.ToLower(title), " ", "-") != anchor {
			continue
		}
		if row.MatchString(text) {
			return ""
		}
		return title + "\n" + unfolded(plain(strings.TrimRight(text, "\n")))
	}
	return ""
}

// unfolded replaces table rows in text with paragraphs, because their cells can be longer than a line in a terminal. A
// paragraph consists of the first cell followed by all others, each preceded by its column's title.
func unfolded(text string) string {
	var out []string
	var titles []string
	for line := range strings.SplitSeq(text, "\n") {
		row, is := strings.CutPrefix(line, "| ")
		cells := strings.Split(strings.TrimSuffix(row, "|"), " | ")
		switch {
		case strings.HasPrefix(line, "|--"):
		case !is:
			titles = nil
			out = append(out, line)
		case titles == nil:
			titles = cells
		default:
			out = append(out, strings.TrimSpace(cells[0]))
			for i, cell := range cells[1:] {
				if cell = strings.TrimSpace(cell); cell != "" {
					out = append(out, "  "+strings.TrimSpace(titles[min(i+1, len(titles)-1)])+": "+cell)
				}
			}
		}
	}
	return strings.Join(out, "\n")
}

// plain returns text without Markdown markup. Links to other pages are replaced with their paths, and links within the
// page are removed.
func plain(text string) string {
	text = strings.NewReplacer("`", "", "**", "").Replace(text)
	text = emphasis.ReplaceAllString(text, "$1$2")
	return link.ReplaceAllStringFunc(text, func(l string) string {
		m := link.FindStringSubmatch(l)
		switch m[2] {
		case "":
			return m[1]
		case m[1]:
			return "docs/" + m[2] + m[3]
		}
		return m[1] + " (docs/" + m[2] + m[3] + ")"
	})
}
