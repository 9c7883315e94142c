package cordon

import (
	"context"
	"errors"

	"b-com.com/accelerator-device-plugin/internal/notify"
)

var Parse = parse

// RunUnwatched is Run without inotify, which does not work in a bubble of synctest.
func (b *Book) RunUnwatched(ctx context.Context) error {
	return b.run(ctx, func() (*notify.Instance, error) { return nil, errors.New("none in this test") })
}
