package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// apply executes a request that changes the card's state. The requests are listed at serve.
func (c *card) apply(verb string, args []string) error {
	if len(c.functions) == 0 {
		return fmt.Errorf("%s: found card %s, which qemu emulates, want another model", verb, c.name)
	}
	if verb == "kill" || verb == "revive" {
		if len(args) != 0 {
			return fmt.Errorf("%s: found %d arguments, want none", verb, len(args))
		}
		for _, f := range c.functions {
			f.mu.Lock()
			f.dead = verb == "kill"
			f.mu.Unlock()
		}
		return nil
	}
	if verb == "management" {
		for _, f := range c.functions {
			if f.mailbox != nil && len(args) == 1 {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.mailbox.report(args[0])
			}
		}
		return fmt.Errorf("management: found %d arguments, want one, and a card with a mailbox", len(args))
	}
	return c.functions[0].apply(verb, args)
}

func (f *function) apply(verb string, args []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch verb {
	case "pr":
		if len(args) != 1 || !f.fme {
			return fmt.Errorf("pr: found %d arguments, want one, and a card with an FME", len(args))
		}
		return f.setPR(args[0])
	case "set":
		return f.setRegister(args)
	case "ids":
		return f.setIDs(args)
	case "error", "power", "afu":
		if len(args) < 1 || len(args) > 2 {
			return fmt.Errorf("%s: found %d arguments, want a value and a port", verb, len(args))
		}
		port, err := f.port(args[1:])
		if err != nil {
			return err
		}
		return f.applyToPort(port, verb, args[0])
	}
	return fmt.Errorf("request: found %q, want one of kill, revive, error, power, afu, set, ids, pr, management", verb)
}

// setIDs changes the vendor and device IDs in config space.
func (f *function) setIDs(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("ids: found %d arguments, want a vendor and a device", len(args))
	}
	for i, text := range args {
		id, err := strconv.ParseUint(text, 16, 16)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(f.config[2*i:], uint16(id))
	}
	return nil
}

// port returns the offset in BAR 0 of the port with this number. The default is the first port.
func (f *function) port(number []string) (uint64, error) {
	var n uint64
	if len(number) > 0 {
		var err error
		if n, err = strconv.ParseUint(number[0], 10, 8); err != nil {
			return 0, fmt.Errorf("port: found %q, want a number", number[0])
		}
	}
	if n >= uint64(len(f.ports)) {
		return 0, fmt.Errorf("port: found %d, want a number below %d", n, len(f.ports))
	}
	return f.ports[n], nil
}

func (f *function) applyToPort(port uint64, verb, text string) error {
	if verb == "afu" {
		return f.setAFU(port, text)
	}
	value, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return err
	}
	if verb == "error" {
		f.set(port+portErrors+0x10, value)
		f.set(port+portErrors+0x18, value) // first error register
		return nil
	}
	status := f.register(port + portStatus)
	f.set(port+portStatus, status&^(0xf<<8)|value&0xf<<8)
	return nil
}

func (f *function) setRegister(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("set: found %d arguments, want an offset and a value", len(args))
	}
	at, err := strconv.ParseUint(args[0], 0, 64)
	if err != nil {
		return err
	}
	value, err := strconv.ParseUint(args[1], 0, 64)
	if err != nil {
		return err
	}
	if at%8 != 0 || !f.inside(at, 8) {
		return fmt.Errorf("offset: found %#x, want a multiple of 8 inside BAR 0", at)
	}
	f.set(at, value)
	return nil
}

func (f *function) setPR(state string) error {
	switch state {
	case "busy":
		f.set(fmePR+prStatus, prCredits|prBusy)
	case "ready":
		f.set(fmePR+prStatus, prCredits)
	case "fail":
		f.failPR = true
	default:
		return fmt.Errorf("pr: found %q, want busy, ready or fail", state)
	}
	return nil
}
