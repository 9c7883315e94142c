package inventory_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// scenarioCommand is one command in the language. Its usage lists the words that follow the name. ADDRESS and pN are a
// card and one of its ports, words in brackets are optional, and … stands for any number of further words.
type scenarioCommand struct {
	kind  commandKind
	usage string
	do    func(*scenario, scenarioStep) error
}

type commandKind uint8

const (
	action       commandKind = iota // an action outside the node and the daemon
	edit                            // a change to a card
	daemonAction                    // an action of the running daemon
	setup                           // before the daemon starts
	check                           // compares the list or the log
)

// scenarioStep is one line in a scenario.
type scenarioStep struct {
	line   int
	name   string
	silent bool
	words  []string // the words after the name
	scenarioCommand

	card string   // ADDRESS including its domain, or "" if there is none
	port int      // N in pN
	rest []string // the other words
}

func (st scenarioStep) String() string {
	return strings.Join(append([]string{st.name}, st.words...), " ")
}

// parseScenario parses a scenario. Errors start with the line number.
func parseScenario(text string) ([]scenarioStep, error) {
	var steps []scenarioStep
	if !strings.HasPrefix(text, "# ") {
		return nil, errors.New("1: found no description, want one in a comment")
	}
	checked, repeated, times := false, -1, 0 // index of the first repeated step
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if words[0] == "repeat" && len(words) == 2 { // repeats the steps up to the word end
			var err error
			if times, err = strconv.Atoi(words[1]); err != nil {
				return nil, fmt.Errorf("%d: %w", i+1, err)
			}
			repeated = len(steps)
			continue
		}
		if words[0] == "end" && repeated >= 0 {
			steps, repeated = append(steps[:repeated], slices.Repeat(steps[repeated:], times)...), -1
			continue
		}
		step, err := parseStep(words)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+1, err)
		}
		step.line = i + 1
		checked = checked || step.kind == check
		steps = append(steps, step)
	}
	if !checked || repeated >= 0 {
		return nil, errors.New("1: found no check, or a repeat without end")
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
	if st.silent && st.kind != edit {
		return st, fmt.Errorf("silently: found %s, want an edit of the node", st.name)
	}
	usage := strings.Fields(command.usage)
	if least, most := wordsOf(usage); len(st.words) < least || len(st.words) > most {
		return st, fmt.Errorf("%s: found %d words, want %s", st.name, len(st.words), command.usage)
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

// wordsOf returns the minimum and maximum number of words for a usage.
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

// parseCard parses a card's address, in which domain 0 can be omitted.
func parseCard(word string) (string, error) {
	if strings.Count(word, ":") == 1 {
		word = "0000:" + word
	}
	return sysfs.ParsePCIAddress(word)
}

func parsePort(word string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(word, "p"))
	if err != nil || !strings.HasPrefix(word, "p") || n < 0 || n > 3 {
		return 0, fmt.Errorf("found %q, want p0 to p3", word)
	}
	return n, nil
}
