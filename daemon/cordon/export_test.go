package cordon

import (
	"context"

	"b-com.com/accelerator-device-plugin/internal/dirwatch"
)

var Parse = parse

// RunUnwatched is Run without inotify, which does not work in a bubble of synctest.
func (b *Book) RunUnwatched(ctx context.Context) error {
	return b.run(ctx, func(context.Context, dirwatch.Config, func()) {})
}
