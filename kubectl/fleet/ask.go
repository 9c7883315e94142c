package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// parallel is how many nodes are queried at a time.
const parallel = 64

// Answer is the result of querying a pod: the daemon's state or an error.
type Answer struct {
	Target
	State State
	Err   error // if nil, State is valid
}

// Ask queries the state of all targets, many of them at a time, and returns the answers in the order of targets.
func (f *Fleet) Ask(ctx context.Context, targets []Target) []Answer {
	answers := make([]Answer, len(targets))
	var mu sync.Mutex
	done := 0
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, t := range targets {
		group.Go(func() error {
			answers[i] = f.ask(ctx, t)
			mu.Lock()
			defer mu.Unlock()
			if done++; f.Progress != nil {
				f.Progress(done, len(targets))
			}
			return nil
		})
	}
	_ = group.Wait() // the functions always return nil
	return answers
}

// ask queries a pod. If that fails, it tries once more, because the pod may have been restarted or replaced.
func (f *Fleet) ask(ctx context.Context, t Target) Answer {
	ctx, cancel := context.WithTimeoutCause(ctx, f.Limit, errSlow{f.Limit})
	defer cancel()
	a := Answer{Target: t}
	if a.State, a.Err = f.state(ctx, t); a.Err == nil || isFinal(ctx, a.Err) {
		return a
	}
	if again, ok := f.await(ctx, t); ok {
		state, err := f.state(ctx, again)
		if err == nil || !isFinal(ctx, err) {
			a = Answer{Target: again, State: state, Err: err}
		}
	}
	return a
}

// isFinal reports whether a retry after this error would be pointless.
func isFinal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrRefused) || errors.Is(err, errNoPod) || errors.Is(err, errOlder)
}

// await waits briefly for the target's release to have a running pod on the node, and returns that pod. ok is false if
// there still isn't one.
func (f *Fleet) await(ctx context.Context, t Target) (again Target, ok bool) {
	if t.Node == "" { // the pod hasn't been scheduled
		return t, false
	}
	for range 4 {
		select {
		case <-ctx.Done():
			return t, false
		case <-time.After(f.pause):
		}
		pods, err := f.list(ctx, []string{t.Node})
		if err != nil {
			return t, false
		}
		targets := choose(pods)
		i := slices.IndexFunc(targets, func(o Target) bool { return o.release == t.release })
		if i < 0 {
			return t, false
		}
		if again = targets[i]; again.Problem == nil {
			return again, true
		}
		if t.Problem != nil { // the pod wasn't running in the first place
			return t, false
		}
	}
	return t, false
}

// state runs `devices -o state` in a pod, and returns the parsed output.
func (f *Fleet) state(ctx context.Context, t Target) (State, error) {
	if t.Problem != nil {
		return State{}, t.Problem
	}
	out, err := f.Run(ctx, t, "devices", "-o", "state")
	var failed *Failed
	if errors.As(err, &failed) && failed.Code == 2 && strings.Contains(failed.Stderr, `found "state"`) {
		return State{}, errOlder
	}
	if err != nil {
		return State{}, err
	}
	state, err := Parse(out)
	if !f.History {
		state.Cards = nil
	}
	return state, err
}

var errOlder = errors.New("the plugin on this node is older than this command needs: upgrade it, or run accelerator-device-plugin devices in its pod")

type errSlow struct{ limit time.Duration }

func (e errSlow) Error() string { return "no answer within " + e.limit.String() }
