package main

import (
	"fmt"
	"strconv"
)

// befall lets something happen to a card.
func (c *card) befall(verb string, args []string) error {
	if verb == "kill" || verb == "revive" {
		if len(args) != 0 {
			return fmt.Errorf("%s with %d arguments, want none", verb, len(args))
		}
		for _, f := range c.functions {
			f.mu.Lock()
			f.dead = verb == "kill"
			f.mu.Unlock()
		}
		return nil
	}
	return c.functions[0].befall(verb, args)
}

func (f *function) befall(verb string, args []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch verb {
	case "pr":
		if len(args) != 1 || !f.fme {
			return fmt.Errorf("pr with %d arguments, want one, and a card with an FME", len(args))
		}
		return f.setPR(args[0])
	case "set":
		return f.setRegister(args)
	case "error", "power", "afu":
		if len(args) < 1 || len(args) > 2 {
			return fmt.Errorf("%s with %d arguments, want a value and a port", verb, len(args))
		}
		port, err := f.port(args[1:])
		if err != nil {
			return err
		}
		return f.befallPort(port, verb, args[0])
	}
	return fmt.Errorf("no request %q", verb)
}

// port is where the port stands that is named, or the first.
func (f *function) port(named []string) (uint64, error) {
	var n uint64
	if len(named) > 0 {
		var err error
		if n, err = strconv.ParseUint(named[0], 10, 8); err != nil {
			return 0, fmt.Errorf("port %q", named[0])
		}
	}
	if n >= uint64(len(f.ports)) {
		return 0, fmt.Errorf("port %d of %d", n, len(f.ports))
	}
	return f.ports[n], nil
}

func (f *function) befallPort(port uint64, verb, text string) error {
	if verb == "afu" {
		return f.setAFU(port, text)
	}
	value, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return err
	}
	if verb == "error" {
		f.set(port+portErrors+0x10, value)
		f.set(port+portErrors+0x18, value) // the first error
		return nil
	}
	status := f.register(port + portStatus)
	f.set(port+portStatus, status&^(0xf<<8)|value&0xf<<8)
	return nil
}

func (f *function) setRegister(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("set with %d arguments, want an offset and a value", len(args))
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
		return fmt.Errorf("no register at %#x", at)
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
		return fmt.Errorf("no state %q", state)
	}
	return nil
}
