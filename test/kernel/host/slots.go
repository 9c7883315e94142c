package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// card is what is plugged into a slot.
type card struct {
	name      string
	functions []*function // from 0
	left      int         // functions that the guest has not let go of
}

func newCard(name string, m model) (*card, error) {
	c := &card{name: name}
	for _, of := range m {
		f, err := newFunction(of, len(m) > 1)
		if err != nil {
			return nil, err
		}
		c.functions = append(c.functions, f)
	}
	return c, nil
}

// id is the name of one of a card's functions for qemu: c0, c0.1.
func (c *card) id(function int) string {
	if function == 0 {
		return c.name
	}
	return fmt.Sprintf("%s.%d", c.name, function)
}

// plug joins a new card to a slot. With function 0, which comes last, the guest sees
// all of them. Should one fail, those before stay in the slot, and nobody sees them.
func (m *machine) plug(name, of, slot string) error {
	mod, ok := models[of]
	if !ok {
		return fmt.Errorf("no model %q", of)
	}
	if _, taken := m.cards[name]; taken {
		return fmt.Errorf("card %q is plugged", name)
	}
	if strings.Contains(name, ".") {
		return fmt.Errorf("card %q: a dot is for functions", name)
	}
	c, err := newCard(name, mod)
	if err != nil {
		return err
	}
	for i := len(c.functions) - 1; i >= 0; i-- {
		if err := m.join(c, i, slot); err != nil {
			return err
		}
		c.left++
	}
	m.cards[name] = c
	return nil
}

// join gives qemu a function at the end of a socket pair.
func (m *machine) join(c *card, number int, slot string) error {
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
	m.tasks.Go(func() { c.functions[number].serve(conn.(*net.UnixConn)) })
	id := c.id(number)
	err = m.qmp.do("getfd", map[string]any{"fdname": id}, fds[1])
	if err == nil {
		err = m.qmp.do("device_add", map[string]any{
			"driver": "x-pci-proxy-dev", "id": id, "fd": id, "bus": slot,
			"addr": fmt.Sprintf("0.%d", number), "multifunction": len(c.functions) > 1,
		}, -1)
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	return nil
}

// unplug asks the guest to let go of a card, which it does of a slot as a whole, and
// waits.
func (m *machine) unplug(c *card) error {
	if err := m.qmp.do("device_del", map[string]any{"id": c.name}, -1); err != nil {
		return err
	}
	for m.cards[c.name] != nil {
		id, err := m.qmp.awaitDeleted()
		if err != nil {
			return err
		}
		m.gone(id)
	}
	return nil
}

// forget drops the cards that the guest has let go of without being asked: one that
// is plugged while the guest is still ejecting its predecessor is ejected, too.
func (m *machine) forget() {
	for {
		select {
		case id := <-m.qmp.deleted:
			m.gone(id)
		default:
			return
		}
	}
}

// gone takes note that the guest has let go of a function.
func (m *machine) gone(id string) {
	name, _, _ := strings.Cut(id, ".")
	c, ok := m.cards[name]
	if !ok {
		return
	}
	if c.left--; c.left == 0 {
		delete(m.cards, name)
	}
}
