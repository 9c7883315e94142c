// Package doccmd finds the commands in this project's documents, so that tests can check that they exist.
package doccmd

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/test/must"
)

// Command is a program's invocation in a document.
type Command struct {
	Page  string
	Args  []string // without the program's name
	Whole bool     // on a line of its own; within a sentence, arguments may be missing: "run `accelerator-fpga info`"
}

func (c Command) String() string { return c.Page + ": " + strings.Join(c.Args, " ") }

// Commands returns a program's invocations in the tree's documents. program is "make" or "kubectl accelerator", for
// example.
func Commands(t testing.TB, tree, program string) (found []Command) {
	t.Helper()
	pages := must.Value(filepath.Glob(tree + "/docs/*.md"))(t)
	for _, page := range append(pages, tree+"/README.md", tree+"/CONTRIBUTING.md", tree+"/SECURITY.md") {
		found = append(found, inText(page, string(must.Value(os.ReadFile(page))(t)), program)...)
	}
	return found
}

// Examples returns the invocations in the examples of a program's help. In a line, three spaces separate an invocation
// from a comment.
func Examples(root *cobra.Command, program string) (found []Command) {
	for line := range strings.Lines(root.Example) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
		found = append(found, inText(root.CommandPath()+" --help", "    "+line, program)...)
	}
	for _, cmd := range root.Commands() {
		found = append(found, Examples(cmd, program)...)
	}
	return found
}

// Check checks commands against the program that newRoot defines. The test fails if a subcommand or flag doesn't exist,
// if a whole command has too few or too many arguments, or if there are fewer than atLeast commands.
func Check(t testing.TB, atLeast int, commands []Command, newRoot func() *cobra.Command) {
	t.Helper()
	for _, c := range commands {
		cmd, args, err := newRoot().Find(c.Args)
		if err == nil {
			cmd.InitDefaultHelpFlag()
			err = cmd.ParseFlags(args)
		}
		if err == nil && c.Whole {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	if len(commands) < atLeast {
		t.Errorf("found %d commands, want %d or more", len(commands), atLeast)
	}
}

var (
	fence  = regexp.MustCompile("^ *```(\\w*)")
	blocks = regexp.MustCompile(`\n\s*\n|\n\s*(?:[-*]|\d+\.) |\n\||\n#`) // paragraphs, list items, table rows, headings
	inline = regexp.MustCompile("`([^`\n]+\n?[^`\n]+)`")
	prompt = regexp.MustCompile(`^\s*[$#] `)
	token  = regexp.MustCompile(`\s[#<>].*|[|;&]+|(?:'[^']*'|"[^"]*"|\\.|[^\s'"|;&\\])+`)
	quotes = regexp.MustCompile(`'([^']*)'|"([^"]*)"|\\(.)`)
	before = regexp.MustCompile(`^(sudo|\{|[A-Z]+=.*)$`)
)

// inText returns a program's invocations in Markdown text.
func inText(page, text, program string) (found []Command) {
	add := func(script string, whole bool) {
		if !strings.Contains(script, program) {
			return
		}
		for _, words := range split(script) {
			n := len(strings.Fields(program))
			if len(words) >= n && strings.Join(words[:n], " ") == program && !slices.Contains(words, "COMMAND") {
				found = append(found, Command{page, words[n:], whole})
			}
		}
	}
	var prose strings.Builder
	fenced, language := false, ""
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if m := fence.FindStringSubmatch(line); m != nil {
			fenced, language = !fenced, m[1]
		} else if fenced && slices.Contains([]string{"", "sh", "console"}, language) || !fenced && strings.HasPrefix(line, "    ") {
			add(prompt.ReplaceAllString(line, ""), true)
		}
		if !fenced {
			prose.WriteString(line)
		}
	}
	for _, block := range blocks.Split(prose.String(), -1) { // an odd back-tick only affects its own block
		for _, m := range inline.FindAllStringSubmatch(block, -1) {
			add(strings.ReplaceAll(m[1], `\|`, "|"), false) // in a table, each pipe is preceded by a backslash
		}
	}
	return found
}

// split splits a script into commands and each command into words.
func split(script string) (commands [][]string) {
	var words []string
	for _, text := range append(token.FindAllString(script, -1), ";") {
		switch {
		case strings.ContainsAny(strings.TrimSpace(text)[:1], "#<>"), text == "…", text == "...", len(words) == 0 && before.MatchString(text):
		case text == "--" && len(words) > 0 && words[0] == "kubectl": // what follows is another program, run by exec or debug
			commands, words = append(commands, words), nil
		case !strings.ContainsAny(text[:1], "|;&"):
			words = append(words, quotes.ReplaceAllString(text, "$1$2$3"))
		case len(words) > 0:
			commands, words = append(commands, words), nil
		}
	}
	for _, words := range commands {
		words[0] = filepath.Base(words[0])
	}
	return commands
}
