package ledger

import (
	"context"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// Parse returns what a ledger would write after reading this file, and the number of cards in it.
func Parse(text []byte) ([]byte, int, error) {
	c, err := parse(text)
	if err != nil {
		return nil, 0, err
	}
	return encode(c), len(c.Cards), nil
}

// Step observes a snapshot and writes the file.
func (l *Ledger) Step(s inventory.Snapshot) error {
	l.observe(s, time.Now())
	_, err := l.replace()
	return err
}

// StoreLate writes the file without waiting for it.
func (l *Ledger) StoreLate(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err := l.store(ctx, diskWithin)
	l.report(err)
}

// Written returns what is written to the file for a memory at a given time.
var Written = written
