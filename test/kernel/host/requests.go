package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// serve does what the guest asks for, one request a line, and answers each with a
// line, "ok …" or "err …". It returns the status with which the guest ended, and
// false when it went without one.
//
//	say TEXT                     shown to whoever watches
//	plug NAME MODEL SLOT         a card, one of models, into rp0 to rp3
//	unplug NAME                  in good order; answered when the guest has let go
//	cards                        names of those that are plugged
//	exit STATUS                  the end
//
// and what befalls a card, function 0 of it unless all are named (befall.go):
//
//	kill NAME, revive NAME       every read of every function answers ones; no longer
//	error NAME V [PORT]          port errors; ports have the numbers 0, the default, and 1
//	power NAME V [PORT]          power state of the port
//	afu NAME GUID [PORT]         another AFU, behind the driver's back
//	set NAME OFFSET V            any register of BAR 0
//	pr NAME busy|ready|fail      reconfiguration waits; goes on; fails the next time
func (m *machine) serve() (status int, ok bool) {
	lines := bufio.NewScanner(m.control)
	for lines.Scan() {
		verb, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		var answer string
		var err error
		switch verb {
		case "":
			continue
		case "say":
			fmt.Println(rest)
		case "exit":
			if status, err = strconv.Atoi(rest); err == nil {
				// That qemu ends is what wait waits for.
				_ = m.qmp.do("quit", nil, -1)
				return status, true
			}
		default:
			answer, err = m.request(verb, strings.Fields(rest))
		}
		if _, err := io.WriteString(m.control, answerOf(answer, err)); err != nil {
			break
		}
	}
	return 0, false
}

// answerOf is the line that answers a request. An error can have several lines.
func answerOf(answer string, err error) string {
	if err != nil {
		return "err " + strings.ReplaceAll(err.Error(), "\n", "; ") + "\n"
	}
	return "ok " + answer + "\n"
}

func (m *machine) request(verb string, args []string) (string, error) {
	m.forget()
	switch {
	case verb == "cards":
		return strings.Join(slices.Sorted(maps.Keys(m.cards)), " "), nil
	case verb == "plug" && len(args) == 3:
		return "", m.plug(args[0], args[1], args[2])
	}
	if len(args) == 0 {
		return "", fmt.Errorf("%s: which card?", verb)
	}
	c, ok := m.cards[args[0]]
	if !ok {
		return "", fmt.Errorf("card %q is not plugged", args[0])
	}
	if verb == "unplug" {
		return "", m.unplug(c)
	}
	return "", c.befall(verb, args[1:])
}
