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
	attached  int         // how many functions the guest hasn't released yet
	leaving   bool        // whether removal has been requested
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

// id returns a function's ID in qemu, such as c0 or c0.1.
func (c *card) id(function int) string {
	if function == 0 {
		return c.name
	}
	return fmt.Sprintf("%s.%d", c.name, function)
}

// plug plugs a new card into a slot. It adds function 0 last, because that is when all functions appear in the guest.
// If adding a function fails, those added before it stay in the slot but are invisible to the guest.
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

// attach adds a function to qemu. qemu gets one end of a socket pair, and the function serves the other.
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
	// serve must be running before qemu sends its first command. It returns when qemu closes its end.
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

// unplug requests a card's removal, and waits until the guest has released all of the card's functions, because the
// guest releases a slot as a whole.
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

// pull requests a card's removal, unless it has already been requested, and doesn't wait.
func (m *machine) pull(c *card) error {
	if c.leaving {
		return nil
	}
	c.leaving = true
	return m.qmp.do("device_del", map[string]any{"id": c.name}, -1)
}

// dropReleased deletes the cards that the guest has released without a request. For example, if a card is plugged in
// while the guest is still ejecting the previous one, the guest ejects the new card too.
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

// released records that the guest has released a function. Once all of a card's functions have been released, it
// deletes the card.
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
