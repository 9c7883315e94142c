// Package doccmd finds the commands in this project's documents, so that tests can check that they exist. It is for
// tests only.
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

// Command is a call of a program in a document.
type Command struct {
	Page  string
	Args  []string // without the name of the program
	Whole bool     // on a line of its own; within a sentence a command may lack arguments: "run `accelerator-fpga info`"
}

func (c Command) String() string { return c.Page + ": " + strings.Join(c.Args, " ") }

// Commands returns the calls of a program, such as "make" or "kubectl accelerator", in the documents of the tree.
func Commands(t testing.TB, tree, program string) (found []Command) {
	t.Helper()
	pages := must.Value(filepath.Glob(tree + "/docs/*.md"))(t)
	for _, page := range append(pages, tree+"/README.md", tree+"/CONTRIBUTING.md", tree+"/SECURITY.md") {
		found = append(found, inText(page, string(must.Value(os.ReadFile(page))(t)), program)...)
	}
	return found
}

// Examples returns the example invocations in the help texts of a program's commands. Three blanks separate them from a
// comment.
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

// Check fails the test if the program that newRoot defines does not have the subcommands or the flags of these commands, if a
// whole command has too few or too many arguments, or if there are fewer commands than expected.
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
	inline = regexp.MustCompile("`([^`\n]+\n?[^`\n]+)`")
	prompt = regexp.MustCompile(`^\s*[$#] `)
	token  = regexp.MustCompile(`\s[#<>].*|[|;&]+|(?:'[^']*'|"[^"]*"|\\.|[^\s'"|;&\\])+`)
	quotes = regexp.MustCompile(`'([^']*)'|"([^"]*)"|\\(.)`)
	before = regexp.MustCompile(`^(sudo|\{|[A-Z]+=.*)$`)
)

// inText returns the calls of a program in a text in Markdown.
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
	for _, m := range inline.FindAllStringSubmatch(prose.String(), -1) {
		add(strings.ReplaceAll(m[1], `\|`, "|"), false) // in a row of a table, a backslash is before each pipe
	}
	return found
}

// split returns the commands of a script, each as its words.
func split(script string) (commands [][]string) {
	var words []string
	for _, text := range append(token.FindAllString(script, -1), ";") {
		switch {
		case strings.ContainsAny(strings.TrimSpace(text)[:1], "#<>"), text == "…", text == "...", len(words) == 0 && before.MatchString(text):
		case text == "--" && len(words) > 0 && words[0] == "kubectl": // exec and debug run another program
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
