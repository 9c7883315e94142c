package inventory_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// scenarioCommand is one command of the language. Its usage says which words it
// takes: ADDRESS and pN are a card and one of its ports, words in brackets may be
// left out, and … is any number more.
type scenarioCommand struct {
	kind  commandKind
	usage string
	do    func(*stage, scenarioStep) error
}

type commandKind uint8

const (
	acts    commandKind = iota // something happens
	edits                      // something happens to a card
	news                       // something happens to the daemon, which must have been started
	settles                    // something is settled before it is
	looks                      // nothing happens
)

// scenarioStep is one line of a scenario.
type scenarioStep struct {
	line   int
	name   string
	silent bool
	words  []string // after the name, as they were written
	scenarioCommand

	card string   // ADDRESS with its domain, "" where there is none
	port int      // N of pN
	rest []string // the other words
}

func (st scenarioStep) String() string {
	return strings.Join(append([]string{st.name}, st.words...), " ")
}

// parseScenario reads a scenario. An error begins with the number of its line.
func parseScenario(text string) ([]scenarioStep, error) {
	var steps []scenarioStep
	if !strings.HasPrefix(text, "# ") {
		return nil, errors.New("1: want the story in words first, as a comment")
	}
	looked := false
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		step, err := parseStep(words)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+1, err)
		}
		step.line = i + 1
		looked = looked || step.kind == looks
		steps = append(steps, step)
	}
	if !looked {
		return nil, errors.New("1: nothing is expected")
	}
	return steps, nil
}

func parseStep(words []string) (scenarioStep, error) {
	st := scenarioStep{name: words[0], words: words[1:]}
	if st.silent = st.name == "silently" && len(words) > 1; st.silent {
		st.name, st.words = words[1], words[2:]
	}
	command, ok := scenarioCommands[st.name]
	if !ok {
		return st, fmt.Errorf("unknown command %q", st.name)
	}
	st.scenarioCommand = command
	if st.silent && st.kind != edits {
		return st, fmt.Errorf("%s is no edit of the node: nobody announces it", st.name)
	}
	usage := strings.Fields(command.usage)
	if least, most := wordsOf(usage); len(st.words) < least || len(st.words) > most {
		return st, fmt.Errorf("%d words after %s, want: %s %s", len(st.words), st.name, st.name, command.usage)
	}
	for i, word := range st.words {
		var err error
		switch {
		case i < len(usage) && usage[i] == "ADDRESS":
			st.card, err = parseCard(word)
		case i < len(usage) && usage[i] == "pN":
			st.port, err = parsePort(word)
		default:
			st.rest = append(st.rest, word)
		}
		if err != nil {
			return st, err
		}
	}
	return st, nil
}

// wordsOf returns the least and the greatest number of words of a usage.
func wordsOf(usage []string) (least, most int) {
	least, most = len(usage), len(usage)
	for _, word := range usage {
		if strings.HasPrefix(word, "[") {
			least--
		}
		if strings.Contains(word, "…") {
			most = math.MaxInt
		}
	}
	return least, most
}

// parseCard reads a card's address as people write it: domain 0 may be left out.
func parseCard(word string) (string, error) {
	if strings.Count(word, ":") == 1 {
		word = "0000:" + word
	}
	return sysfs.ParsePCIAddress(word)
}

func parsePort(word string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(word, "p"))
	if err != nil || !strings.HasPrefix(word, "p") || n < 0 || n > 3 {
		return 0, fmt.Errorf("%q is no port, want p0 to p3", word)
	}
	return n, nil
}

// A scenario with a wrong command is refused, with its line.
func TestScenarioRefused(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"no story", "start\nexpect 3b:00.0 gone\n", "1: want the story in words first, as a comment"},
		{"no expectation", "# story\nstart\n", "1: nothing is expected"},
		{"unknown command", "# story\n\nexplode 3b:00.0\n", `3: unknown command "explode"`},
		{"silently nothing", "# story\nsilently\n", `2: unknown command "silently"`},
		{"silently no edit", "# story\nsilently wait 5s\n", "2: wait is no edit of the node: nobody announces it"},
		{"too few words", "# story\nbind 3b:00.0\n", "2: 1 words after bind, want: bind ADDRESS pN"},
		{"too many words", "# story\nunplug 3b:00.0 now\n", "2: 2 words after unplug, want: unplug ADDRESS"},
		{"no word of many", "# story\nhold 3b:00.0\n", "2: 1 words after hold, want: hold ID POD…"},
		{"no port", "# story\nbind 3b:00.0 1\n", `2: "1" is no port, want p0 to p3`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := parseScenario(test.text); err == nil || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
	if _, err := parseScenario("# story\nunplug card\n"); err == nil || !strings.HasPrefix(err.Error(), "2: ") {
		t.Errorf("address of a card: error %v, want one of line 2", err)
	}
}

// Every command is used by a scenario, so that it is tested.
func TestScenarioCommandsAreUsed(t *testing.T) {
	files, _ := filepath.Glob("testdata/scenarios/*.txt")
	var used []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, _ := parseScenario(string(text))
		for _, st := range steps {
			used = append(used, st.name)
		}
	}
	for name := range scenarioCommands {
		if !slices.Contains(used, name) {
			t.Errorf("no scenario uses %s", name)
		}
	}
}
