package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// card is a card in a slot.
type card struct {
	name      string
	functions []*function // by number, from 0
	attached  int         // number of functions that the guest has not released yet
	leaving   bool        // the removal was requested
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

// id returns the id of a function in qemu, such as c0 or c0.1.
func (c *card) id(function int) string {
	if function == 0 {
		return c.name
	}
	return fmt.Sprintf("%s.%d", c.name, function)
}

// plug plugs a new card into a slot. Function 0 is added last. This makes all functions appear in the guest. If adding
// a function fails, the functions that were added before stay in the slot, but the guest cannot see them.
func (m *machine) plug(name, of, slot string) error {
	mod, ok := models[of]
	emulated, byQEMU := qemuModels[of]
	if !ok && !byQEMU {
		names := slices.Concat(slices.Collect(maps.Keys(models)), slices.Collect(maps.Keys(qemuModels)))
		return fmt.Errorf("model: found %q, want one of %s", of, strings.Join(slices.Sorted(slices.Values(names)), ", "))
	}
	if _, taken := m.cards[name]; taken {
		return fmt.Errorf("card %q is plugged already", name)
	}
	if strings.Contains(name, ".") {
		return fmt.Errorf("card: found %q, want a name without a dot", name)
	}
	if byQEMU {
		arguments := maps.Clone(emulated)
		arguments["id"], arguments["bus"] = name, slot
		if err := m.qmp.do("device_add", arguments, -1); err != nil {
			return err
		}
		m.cards[name] = &card{name: name, attached: 1}
		return nil
	}
	c, err := newCard(name, mod)
	if err != nil {
		return err
	}
	for i := len(c.functions) - 1; i >= 0; i-- {
		if err := m.attach(c, i, slot); err != nil {
			return err
		}
		c.attached++
	}
	m.cards[name] = c
	return nil
}

// attach adds a function to qemu. qemu gets one end of a socket pair, and the function serves the other end.
func (m *machine) attach(c *card, number int, slot string) error {
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
	// serve must run before qemu sends its first command. It returns when qemu closes its end.
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

// unplug requests the removal of a card, and blocks until the guest has released all its functions. The guest releases
// a slot as a whole.
func (m *machine) unplug(c *card) error {
	if err := m.pull(c); err != nil {
		return err
	}
	for m.cards[c.name] != nil {
		id, err := m.qmp.awaitDeleted()
		if err != nil {
			return err
		}
		m.released(id)
	}
	return nil
}

// pull requests a card's removal once, and doesn't wait for it.
func (m *machine) pull(c *card) error {
	if c.leaving {
		return nil
	}
	c.leaving = true
	return m.qmp.do("device_del", map[string]any{"id": c.name}, -1)
}

// dropReleased deletes the cards that the guest has released without a request. This happens if a card is plugged in
// while the guest is still ejecting the previous card: the new card is ejected, too.
func (m *machine) dropReleased() {
	for {
		select {
		case id := <-m.qmp.deleted:
			m.released(id)
		default:
			return
		}
	}
}

// released counts a function that the guest has released. After the last function, it deletes the card.
func (m *machine) released(id string) {
	name, _, _ := strings.Cut(id, ".")
	c, ok := m.cards[name]
	if !ok {
		return
	}
	if c.attached--; c.attached == 0 {
		delete(m.cards, name)
	}
}
