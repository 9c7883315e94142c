package cordon

import (
	"context"

	"b-com.com/accelerator-device-plugin/internal/dirwatch"
)

var Parse = parse

// RunUnwatched is like Run, but without inotify, which doesn't work in a synctest bubble.
func (b *Book) RunUnwatched(ctx context.Context) error {
	return b.run(ctx, func(context.Context, dirwatch.Config, func()) {})
}
