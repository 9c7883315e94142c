package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	watchFor    = 5 * time.Minute  // to twice as long: the server is asked to end a watch then
	watchGrace  = 30 * time.Second // until we do
	eventWithin = 30 * time.Second // from its first byte to its last
	tooBrief    = 5 * time.Second  // a watch that lasts so long may end
	steadyAfter = 45 * time.Second // and so long is well: more than eventWithin, else a server whose events stall is well each time
)

var (
	errStalled = fmt.Errorf("event began and did not end within %s", eventWithin)
	errOver    = errors.New("watch is over its time")
)

// watch tells of events after version until the watch ends. It returns the
// version to go on from: a watch that was well and ended is nothing to speak of.
func (f *following) watch(ctx context.Context, version string) (string, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	lasts := watchFor + rand.N(watchFor)
	over := time.AfterFunc(lasts+watchGrace, func() { end(errOver) })
	defer over.Stop()

	began := time.Now()
	body, err := f.open(ctx, version, lasts)
	if err != nil {
		return version, err
	}
	arrived := make(chan arrival)
	go receive(ctx, end, body, f.name, arrived)
	defer func() {
		end(nil)
		for range arrived { // closed at the end of receive
		}
	}()
	steady := time.NewTimer(steadyAfter)
	defer steady.Stop()
	for {
		select {
		case <-steady.C:
			f.pause.Reset()
			f.trouble.passed()
		case a, open := <-arrived:
			if !open {
				return version, f.ended(ctx, &broken{context.Cause(ctx)}, time.Since(began))
			}
			if a.err != nil {
				return version, f.ended(ctx, a.err, time.Since(began))
			}
			version = a.news.version
			if a.news.node != nil {
				f.tell(*a.news.node)
			}
		}
	}
}

// open begins a watch and returns its body.
func (f *following) open(ctx context.Context, version string, lasts time.Duration) (io.ReadCloser, error) {
	query := f.selector()
	maps.Copy(query, map[string][]string{
		"watch":               {"true"},
		"resourceVersion":     {version},
		"allowWatchBookmarks": {"true"},
		"timeoutSeconds":      {strconv.Itoa(int(lasts.Seconds()))},
	})
	answer, err := f.get(ctx, nodesPath, query, acceptWatch)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.code == http.StatusGone {
		return nil, errExpired
	}
	if err != nil {
		return nil, needingNodes(err, "watch")
	}
	return answer.Body, nil
}

// ended judges how a watch ended. Servers close watches as they please, and
// connections break: that is in order if it does not happen at once.
func (f *following) ended(ctx context.Context, err error, lasted time.Duration) error {
	cause := context.Cause(ctx)
	var what *broken
	switch {
	case errors.Is(err, errExpired):
		return errExpired
	case errors.Is(cause, errStalled):
		err = errStalled
	case !errors.As(err, &what): // an event that is not one
	case cause != nil || lasted >= tooBrief:
		return nil
	default:
		err = fmt.Errorf("ended after %s: %w", lasted.Round(time.Millisecond), err)
	}
	return fmt.Errorf("API server %s: %w", f.Address(), err)
}

// arrival is news, or why there will be no more.
type arrival struct {
	news news
	err  error
}

// broken is an end of the stream, in good order or not.
type broken struct{ error }

func (b *broken) Unwrap() error { return b.error }

// reading tells an end of the stream from bytes that are no event.
func reading(err error) error {
	if errors.Is(err, errTooLarge) {
		return fmt.Errorf("event: %w", err)
	}
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &shape) {
		return fmt.Errorf("not an event: %w", err)
	}
	return &broken{err}
}

// receive reads events until one fails or ctx ends, and closes the body and to.
func receive(ctx context.Context, end context.CancelCauseFunc, body io.ReadCloser, name string, to chan<- arrival) {
	defer close(to)
	defer body.Close()
	stall := time.AfterFunc(eventWithin, func() { end(errStalled) })
	stall.Stop()
	defer stall.Stop()
	stream := newEvents(body, func() { stall.Reset(eventWithin) })
	for {
		read, err := stream.next()
		stall.Stop()
		var a arrival
		if err != nil {
			a.err = reading(err)
		} else {
			a.news, a.err = read.news(name)
		}
		select {
		case to <- a:
		case <-ctx.Done():
			return
		}
		if a.err != nil {
			return
		}
	}
}
