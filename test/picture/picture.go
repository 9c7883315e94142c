// Package picture turns commands' output into pictures for the documentation.
package picture

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode/utf8"
)

var escape = regexp.MustCompile("\x1b\\[([0-9]+)m")

// Terminal returns an SVG of a dark terminal that shows the given lines in colour.
func Terminal(title string, lines []string) string {
	const width, height, margin = 7.25, 18, 16 // width of a character, height of a line
	columns := 0
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(escape.ReplaceAllString(l, "")))
	}
	var b strings.Builder
	w, h := int(float64(columns)*width)+2*margin, len(lines)*height+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(title))
	b.WriteString("<style>text { white-space: pre }</style>\n")
	fmt.Fprintf(&b, `<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="#0d1117" stroke="#6e7681"/>`+"\n", w-1, h-1)
	b.WriteString(`<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="12"` +
		` fill="#e6edf3">` + "\n")
	styles := map[string]string{"31": `fill="#ff7b72"`, "32": `fill="#56d364"`, "33": `fill="#e3b341"`, "39": `fill="#e6edf3"`, "1": `font-weight="bold"`}
	for i, l := range lines {
		if l == "" {
			continue
		}
		text := escape.ReplaceAllStringFunc(html.EscapeString(l), func(s string) string {
			if style := styles[escape.FindStringSubmatch(s)[1]]; style != "" {
				return "<tspan " + style + ">"
			}
			return "</tspan>"
		})
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", margin, margin+i*height+13, text)
	}
	return b.String() + "</g>\n</svg>\n"
}
