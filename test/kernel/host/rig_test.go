package main

import "testing"

// functionOf returns function 0 of a card of the model.
func functionOf(t testing.TB, name string) *function {
	t.Helper()
	c, err := newCard("c0", models[name])
	if err != nil {
		t.Fatal(err)
	}
	return c.functions[0]
}

// reg reads a register as a driver does.
func reg(f *function, at uint64) uint64 { return f.read(at, 8) }
