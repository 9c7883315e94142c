package main

import (
	"context"
	"errors"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// errModeChanged ends a generation.
var errModeChanged = errors.New("the mode has changed")

// run runs one generation after another, each with the mode that is asked for
// then, until ctx ends or one fails. Without modes there is one.
func (s *service) run(ctx context.Context, modes <-chan string) error {
	mode, ok := s.firstMode(ctx, modes)
	for ok {
		current, end := context.WithCancelCause(ctx)
		next := make(chan string, 1)
		go func() { next <- awaitOther(current, modes, mode, end) }()
		err := s.generation(current, mode)
		end(nil)
		asked := <-next
		if err != nil || ctx.Err() != nil {
			return err
		}
		s.log.Info("mode changed", event.ModeChanged, event.Old(mode), event.New(asked))
		mode = asked
	}
	return nil
}

// awaitOther waits for a mode that is not the present one, ends the generation and
// returns it. When the generation ends by itself, it returns the present one.
func awaitOther(ctx context.Context, modes <-chan string, present string, end context.CancelCauseFunc) string {
	for {
		select {
		case <-ctx.Done():
			return present
		case asked := <-modes:
			if asked != present {
				end(errModeChanged)
				return asked
			}
		}
	}
}

// modes returns where the modes come from that the node's annotation asks for, and
// what follows it until its context ends; nothing where nobody is to be asked.
func (s *service) modes() (<-chan string, func(context.Context) error, error) {
	return nil, nil, nil
}

// firstMode is the mode to begin with; false when ctx ended before.
func (s *service) firstMode(ctx context.Context, modes <-chan string) (string, bool) {
	return s.cfg.Mode, ctx.Err() == nil
}
