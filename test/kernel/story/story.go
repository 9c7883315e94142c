package story

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Story is a test.
type Story struct {
	Name  string
	Title string
	Steps []Step
}

// Step is a line in a story.
type Step struct {
	Line int // counted from 1
	Verb string
	Args []string
}

func (s Step) String() string { return strings.Join(append([]string{s.Verb}, s.Args...), " ") }

// Verbs returns the verbs, sorted.
func Verbs() []string { return slices.Sorted(maps.Keys(synopses)) }

// Parse parses a story. Its errors start with the story's name and the line number.
func Parse(name, text string) (Story, error) {
	s := Story{Name: name}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "#"); ok && number == 1 {
			s.Title = strings.TrimSpace(title)
		}
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		step := Step{Line: number, Verb: words[0], Args: words[1:]}
		if err := step.check(); err != nil {
			return Story{}, fmt.Errorf("%s:%d: %s: %w", name, number, step.Verb, err)
		}
		s.Steps = append(s.Steps, step)
	}
	if s.Title == "" {
		return Story{}, fmt.Errorf("%s:1: found no title, want a comment", name)
	}
	return s, nil
}

func (s Step) check() error {
	synopsis, ok := synopses[s.Verb]
	if !ok {
		return fmt.Errorf("found no such verb, want one of %s", strings.Join(Verbs(), ", "))
	}
	if err := match(synopsis, s.Args); err != nil {
		return err
	}
	if s.Verb == "expect" && !slices.Equal(s.Args, []string{Sysfs}) {
		_, err := ParseExpectation(s.Args)
		return err
	}
	return nil
}
