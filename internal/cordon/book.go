package cordon

import (
	"context"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/latest"
)

// Book has the cordons of a node. Create it with [Open].
type Book struct {
	dir     string
	log     *zap.Logger
	cordons *latest.Value[[]Cordon]
}

// Open reads the cordons in a state directory, which it makes when it is missing.
func Open(dir string, log *zap.Logger) (*Book, error) {
	return &Book{dir: dir, log: log, cordons: latest.New[[]Cordon](nil)}, nil
}

// List returns the cordons in force, sorted by device. It is read-only.
func (b *Book) List() []Cordon {
	all, _ := b.cordons.Load()
	return all
}

// Changed returns a channel that is closed when the list is stale. Take it before List.
func (b *Book) Changed() <-chan struct{} {
	_, stale := b.cordons.Load()
	return stale
}

// Add cordons devices, or renews their cordons, and returns them. A duration of 0 means until they are removed.
func (b *Book) Add(ctx context.Context, devices []string, by, why string, d time.Duration) ([]Cordon, error) {
	return nil, nil
}

// Remove ends the cordons of devices and returns them.
func (b *Book) Remove(ctx context.Context, devices []string, by string) ([]Cordon, error) {
	return nil, nil
}

// Run ends cordons in time and follows the file, until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
