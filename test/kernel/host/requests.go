package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// serve does what the guest asks for, one request a line, and answers each with a
// line, "ok …" or "err …". It returns the status with which the guest ended, and
// false when it went without one.
//
//	say TEXT                     shown to whoever watches
//	plug NAME MODEL SLOT         a card, one of models, into rp0 to rp3
//	unplug NAME                  in good order; answered when the guest has let go
//	cards                        names of those that are plugged
//	kill NAME, revive NAME       every read answers ones; no longer
//	error NAME V                 port errors
//	power NAME V                 power state of the port
//	afu NAME GUID                another AFU, behind the driver's back
//	set NAME OFFSET V            any register of BAR 0
//	pr NAME busy|ready|fail      reconfiguration waits; goes on; fails the next time
//	exit STATUS                  the end
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
		if err != nil {
			_, err = fmt.Fprintf(m.control, "err %v\n", err)
		} else {
			_, err = fmt.Fprintf(m.control, "ok %s\n", answer)
		}
		if err != nil {
			break
		}
	}
	return 0, false
}

func (m *machine) request(verb string, args []string) (string, error) {
	m.forget()
	switch {
	case verb == "cards":
		var names []string
		for name := range m.cards {
			names = append(names, name)
		}
		return strings.Join(names, " "), nil
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
	return "", c.request(verb, args[1:])
}

// plug joins a new card, on a socket pair, to a slot.
func (m *machine) plug(name, of, slot string) error {
	mod, ok := models[of]
	if !ok {
		return fmt.Errorf("no model %q", of)
	}
	if _, taken := m.cards[name]; taken {
		return fmt.Errorf("card %q is plugged", name)
	}
	c, err := newCard(name, mod)
	if err != nil {
		return err
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "card"), os.NewFile(uintptr(fds[1]), "qemu")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return err
	}
	// It answers before qemu asks, and ends when qemu closes its side.
	m.tasks.Go(func() { c.serve(conn.(*net.UnixConn)) })
	err = m.qmp.do("getfd", map[string]any{"fdname": name}, fds[1])
	if err == nil {
		err = m.qmp.do("device_add", map[string]any{"driver": "x-pci-proxy-dev", "id": name, "fd": name, "bus": slot}, -1)
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	m.cards[name] = c
	return nil
}

// unplug asks the guest to let go of a card, and waits.
func (m *machine) unplug(c *card) error {
	if err := m.qmp.do("device_del", map[string]any{"id": c.name}, -1); err != nil {
		return err
	}
	for m.cards[c.name] != nil {
		gone, err := m.qmp.awaitDeleted()
		if err != nil {
			return err
		}
		delete(m.cards, gone)
	}
	return nil
}

// forget drops the cards that the guest has let go of without being asked: one that
// is plugged while the guest is still ejecting its predecessor is ejected, too.
func (m *machine) forget() {
	for {
		select {
		case gone := <-m.qmp.deleted:
			delete(m.cards, gone)
		default:
			return
		}
	}
}

// request does something to a card.
func (c *card) request(verb string, args []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case verb == "kill" || verb == "revive":
		c.dead = verb == "kill"
		return nil
	case verb == "afu" && len(args) == 1:
		return c.setAFU(args[0])
	case verb == "pr" && len(args) == 1:
		return c.setPR(args[0])
	}
	var numbers []uint64
	for _, arg := range args {
		n, err := strconv.ParseUint(arg, 0, 64)
		if err != nil {
			return err
		}
		numbers = append(numbers, n)
	}
	switch {
	case verb == "error" && len(numbers) == 1:
		c.set(c.port+portErrors+0x10, numbers[0])
		c.set(c.port+portErrors+0x18, numbers[0]) // the first error
	case verb == "power" && len(numbers) == 1:
		status := c.register(c.port + portStatus)
		c.set(c.port+portStatus, status&^(0xf<<8)|numbers[0]&0xf<<8)
	case verb == "set" && len(numbers) == 2 && numbers[0] <= barSize-8:
		c.set(numbers[0], numbers[1])
	default:
		return fmt.Errorf("no request %s with %d arguments", verb, len(args))
	}
	return nil
}

func (c *card) setPR(state string) error {
	switch state {
	case "busy":
		c.set(fmePR+prStatus, prCredits|prBusy)
	case "ready":
		c.set(fmePR+prStatus, prCredits)
	case "fail":
		c.failPR = true
	default:
		return fmt.Errorf("no state %q", state)
	}
	return nil
}
