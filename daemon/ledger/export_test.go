package ledger

import (
	"context"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// Parse returns the text that a ledger writes for a file, and the number of its cards.
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

// StoreLate writes the file, and the caller does not wait for it.
func (l *Ledger) StoreLate(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err := l.store(ctx, diskWithin)
	l.report(err)
}

// Written returns what the file has of a memory at a time.
var Written = written
