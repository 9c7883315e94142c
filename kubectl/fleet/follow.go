package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	relistPace = 2 * time.Second  // minimum time between listings of the pods
	retryMost  = 30 * time.Second // maximum time until a failed node is queried again
	retryFinal = 5 * time.Minute  // the same after an error that only a new pod or the administrator can fix
)

// Change is a change that [Fleet.Follow] reports, such as a new answer from a release's pod on a node.
type Change struct {
	Key    string // identifies a release on a node. If "", Err says why the pods aren't known, or is nil if they are.
	Answer        // the newest answer or error
	Gone   bool   // the node no longer has a pod of this release
}

// Follow reports each release's answer on the given nodes, or on all nodes if none are given, and then every change to
// an answer, until ctx is done. It returns an error only if it can't list the pods at the start. Several goroutines
// call report concurrently.
//
// Follow runs a command in each pod that waits for changes. While nothing changes, each command costs its node next to
// nothing, and the API server an idle connection.
func (f *Fleet) Follow(ctx context.Context, nodes []string, report func(Change)) error {
	targets, err := f.Targets(ctx, nodes...)
	if err != nil {
		return err
	}
	report(Change{})
	followers := map[string]*follower{}
	slots := make(chan struct{}, parallel)
	failed := make(chan struct{}, 1)
	var running sync.WaitGroup
	defer running.Wait()
	for {
		found := map[string]bool{}
		for _, t := range targets {
			key := t.Node + "/" + t.release
			found[key] = true
			old := followers[key]
			switch {
			case old == nil:
				report(Change{Key: key, Answer: Answer{Target: t, Err: ErrAsked}})
			case old.ready == t.ready && fmt.Sprint(old.Target, old.Problem) == fmt.Sprint(t, t.Problem):
				continue // unchanged; readiness also counts, because the node may have died
			default:
				old.stop()
			}
			next := &follower{Target: t, key: key, report: report}
			following, cancel := context.WithCancel(ctx)
			next.cancel = cancel
			followers[key] = next
			running.Go(func() { f.follow(following, next, slots, failed) })
		}
		for key, old := range followers {
			if !found[key] {
				old.stop()
				delete(followers, key)
				report(Change{Key: key, Gone: true})
			}
		}
		for err = errors.New(""); err != nil; {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(relistPace):
			}
			select {
			case <-ctx.Done():
				return nil
			case <-failed:
			case <-time.After(f.relist):
			}
			if targets, err = f.Targets(ctx, nodes...); ctx.Err() == nil {
				report(Change{Answer: Answer{Err: err}})
			}
		}
	}
}

// ErrAsked is the error for a node that hasn't answered yet.
var ErrAsked = errors.New("not answered yet")

// follower follows a pod.
type follower struct {
	Target
	key    string
	cancel context.CancelFunc

	mu      sync.Mutex
	stopped bool
	report  func(Change)
}

// stop ends the follower, which then doesn't report anything else.
func (o *follower) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
	o.cancel()
}

func (o *follower) answer(state State, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.stopped {
		o.report(Change{Key: o.key, Answer: Answer{Target: o.Target, State: state, Err: err}})
	}
}

// follow runs one command after another in a pod and reports the changes that they print, until ctx is done. Each
// command takes up a slot until its first answer. If a command fails, follow sends to the failed channel, so that the
// pods are listed again, unless the pod's commands have already failed many times.
func (f *Fleet) follow(ctx context.Context, o *follower, slots, failed chan struct{}) {
	if o.Problem != nil {
		o.answer(State{}, o.Problem)
		return
	}
	for past := (attempts{}); ; {
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		free := sync.OnceFunc(func() { <-slots })
		var answered atomic.Bool
		began := time.Now()
		err := f.stream(ctx, o.Target, func(line []byte) error {
			free()
			state, err := Parse(line)
			if err == nil {
				answered.Store(true)
				o.answer(state, nil)
			}
			return err
		})
		free()
		lived := time.Since(began)
		if ctx.Err() != nil || err == nil && lived >= f.lasting { // the command has run for its full time
			continue
		}
		wait, report := past.failed(err, answered.Load(), lived, f.pause)
		if report {
			o.answer(State{}, cmp.Or(err, errEarly))
		}
		if wait < retryMost {
			select {
			case failed <- struct{}{}:
			default:
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// attempts records how a follower's previous commands ended.
type attempts struct {
	answered bool // whether a command has ever answered
	failures int  // since a command last answered and ran for at least retryMost
}

// failed counts a failed command. It returns how long to wait before the next one, and whether to report the error. The
// first failure after an answer isn't reported, because the pod may simply have restarted. The wait grows even if the
// pod answers every time: a command that has lost its connection keeps running in the pod until it times out, and such
// commands must not pile up.
func (a *attempts) failed(err error, answered bool, lived, first time.Duration) (wait time.Duration, report bool) {
	a.answered = a.answered || answered
	if answered && lived >= retryMost {
		a.failures = 0
	}
	a.failures++
	if errors.Is(err, ErrRefused) || errors.Is(err, errOlder) {
		return retryFinal, true
	}
	return min(first<<min(a.failures-1, 5), retryMost), a.failures > 1 || !a.answered
}

var (
	errEarly = errors.New("its command ends too early")
	errOver  = errors.New("the time of the command is over")
)

// stream runs `watch -o state` in a pod, and passes each line of its output to the given function. It returns when the
// command ends, when ctx is done, or when the function returns an error.
func (f *Fleet) stream(ctx context.Context, t Target, line func([]byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slow := time.AfterFunc(f.Limit, func() { cancel(errSlow{f.Limit}) })
	defer slow.Stop()
	stdout := &lines{most: maxOutput, line: func(text []byte) {
		slow.Stop()
		if err := line(text); err != nil {
			cancel(err)
		}
	}, full: func() { cancel(errTooLarge) }}
	// A command keeps running in its pod when the client is gone, so give it a time limit. The limit is random, so that
	// 1000 commands don't all end at once. We need a timer here too, because if the node has died, we never hear that
	// the command has ended.
	during := f.lasting + rand.N(f.lasting/2)
	over := time.AfterFunc(during+f.Limit, func() { cancel(errOver) })
	defer over.Stop()
	err := f.run(ctx, t, stdout, "watch", "-o", "state", "--for", fmt.Sprintf("%.0fs", during.Seconds()))
	var old *Failed
	switch {
	case errors.Is(err, errOver):
		return nil
	case errors.As(err, &old) && old.Code == 2 && (strings.Contains(old.Stderr, "unknown flag") || strings.Contains(old.Stderr, `found "state"`)):
		return errOlder
	}
	return err
}

// lines is a writer that passes each line to a function.
type lines struct {
	kept bytes.Buffer // the start of an incomplete line
	most int
	line func([]byte)
	full func() // called when a line is too long
}

// Write never returns an error, because the executor would log it.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if rest := l.most - l.kept.Len(); i > rest || i < 0 && len(p) > rest {
			l.full()
			return n, nil
		}
		if i < 0 {
			l.kept.Write(p)
			return n, nil
		}
		l.kept.Write(p[:i])
		l.line(l.kept.Bytes())
		l.kept = bytes.Buffer{} // frees the memory until the next line
		p = p[i+1:]
	}
}
