package ledger

import (
	"time"

	"b-com.com/accelerator-device-plugin/internal/latest"
)

// Missing is a card that was present when the node was last observed, and has been absent since a start.
type Missing struct {
	Card  string    // PCI address as lspci prints it: 3b:00.0
	Since time.Time // when it was first found to be missing
	Model string    // VVVV:DDDD:SSSS:SSSS, vendor, device and subsystem; "" if not known
}

// Ledger remembers the cards of a node.
type Ledger struct {
	missing *latest.Value[[]Missing]
}

// New returns a ledger that remembers no card.
func New() *Ledger { return &Ledger{missing: latest.New[[]Missing](nil)} }

// Missing returns the missing cards, sorted by address, and a channel that is closed when they change. The slice is
// read-only.
func (l *Ledger) Missing() ([]Missing, <-chan struct{}) { return l.missing.Load() }
