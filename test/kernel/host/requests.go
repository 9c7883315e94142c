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

// serve executes the guest's requests, one per line, and answers each with a line "ok …" or "err …". It returns the
// guest's exit status. ok is false if the connection ended before the guest sent a status. The requests are:
//
//	say TEXT                     print TEXT to standard output
//	plug NAME MODEL SLOT         plug a card (one of models) into a slot (rp0 to rp3)
//	unplug NAME                  request removal, and answer when the guest has released the card
//	pull NAME                    request removal, and answer immediately
//	cards                        return the names of the plugged cards
//	exit STATUS                  end the machine
//
// The following requests change a card's state (fault.go), unless the card is one of qemuModels. kill and revive affect
// all of the card's functions, and management affects the function that has a mailbox. All others affect function 0:
//
//	kill NAME                    every read returns ones, every write is ignored
//	revive NAME                  undo kill
//	error NAME V [PORT]          set the port errors; PORT is 0 (the default) or 1
//	power NAME V [PORT]          set the power state of the port
//	afu NAME GUID [PORT]         replace the AFU without the driver
//	set NAME OFFSET V            set any register of BAR 0
//	ids NAME VENDOR DEVICE       change the IDs in config space, four hexadecimal digits each
//	pr NAME busy|ready|fail      block partial reconfiguration; unblock it; let the next one fail
//	management NAME online|offline|firewall  the management function reports this state to xocl
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
				_ = m.qmp.do("quit", nil, -1) // wait reports how qemu has ended
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

// answerOf formats the answer to a request as a single line, even if err consists of several.
func answerOf(answer string, err error) string {
	if err != nil {
		return "err " + strings.ReplaceAll(err.Error(), "\n", "; ") + "\n"
	}
	return "ok " + answer + "\n"
}

func (m *machine) request(verb string, args []string) (string, error) {
	m.dropReleased()
	switch {
	case verb == "cards":
		return strings.Join(slices.Sorted(maps.Keys(m.cards)), " "), nil
	case verb == "plug" && len(args) == 3:
		return "", m.plug(args[0], args[1], args[2])
	}
	if len(args) == 0 {
		return "", fmt.Errorf("%s: found no card, want the name of a plugged card", verb)
	}
	c, ok := m.cards[args[0]]
	if !ok {
		return "", fmt.Errorf("card %q is not plugged", args[0])
	}
	switch verb {
	case "unplug":
		return "", m.unplug(c)
	case "pull":
		return "", m.pull(c)
	}
	return "", c.apply(verb, args[1:])
}
