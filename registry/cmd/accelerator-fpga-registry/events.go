package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/registry/keep"
)

// Event reasons.
const (
	bitstreamsFailed  = "BitstreamsFailed"
	bitstreamsPresent = "BitstreamsPresent"
)

const (
	gather      = 10 * time.Second // how long to wait for more changes: if a registry is down, all of its references fail
	pace        = time.Minute      // minimum time between writes, because a registry's error text may be different each time
	repeatAfter = 30 * time.Minute // time after which an unchanged Event is written again, because API servers keep Events for only an hour
)

// recorder writes the pod's Events about failing references. References that fail at the same time share an Event,
// because otherwise, if a registry were down, each node would write an Event for each reference.
type recorder struct {
	writer *apiserver.Writer
	pod    apiserver.Object
	node   string
	states func() ([]keep.State, map[string]int)
	log    *zap.Logger
}

// run writes Events until ctx is done. It always returns nil.
func (r *recorder) run(ctx context.Context, changed <-chan struct{}) error {
	defer r.writer.Close()
	var last apiserver.Event // Name is "" until one has been written
	repeat := time.NewTicker(repeatAfter)
	defer repeat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-repeat.C:
			if last.Warning {
				last.Message = "" // so that it is written again
			}
		}
		if !backoff.Wait(ctx, max(gather, pace-time.Since(last.Last))) {
			return nil
		}
		states, _ := r.states()
		reason, message := summary(states)
		if message == last.Message || reason != bitstreamsFailed && !last.Warning || reason == "" {
			continue
		}
		now := time.Now()
		next := apiserver.Event{
			Name: r.pod.Name + "." + strconv.FormatInt(now.UnixNano(), 16), Object: r.pod, Host: r.node, Warning: reason == bitstreamsFailed,
			Reason: reason, Message: message, First: now, Last: now, Count: 1,
		}
		if last.Warning && next.Warning {
			next.Name, next.First, next.Count = last.Name, last.First, last.Count+1
		}
		if !r.write(ctx, next) {
			return nil
		}
		last = next
	}
}

// write writes an Event. It retries until the API server has accepted or rejected it, and returns false if ctx is done.
func (r *recorder) write(ctx context.Context, e apiserver.Event) bool {
	for {
		err := apiserver.ErrNotFound
		if e.Count > 1 {
			err = r.writer.Grow(e)
		}
		if errors.Is(err, apiserver.ErrNotFound) {
			err = r.writer.Create(e)
		}
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil, errors.Is(err, apiserver.ErrExists): // it exists if the response to an earlier attempt was lost
			r.writer.Passed(true)
			return true
		case errors.Is(err, apiserver.ErrRefused), errors.Is(err, apiserver.ErrNotFound), errors.Is(err, apiserver.ErrEnding):
			r.log.Warn("event refused", logevent.EventFailed, logevent.Reason(e.Reason), logevent.Object("Pod/"+e.Object.Namespace+"/"+e.Object.Name), logevent.Err(err))
			return true
		}
		if !backoff.Wait(ctx, r.writer.Failed(err)) {
			return false
		}
	}
}

// summary returns the reason and message of an Event about the given references. Both are "" if no reference has failed
// but some haven't been tried yet.
func summary(states []keep.State) (reason, message string) {
	failed := slices.DeleteFunc(slices.Clone(states), func(s keep.State) bool { return s.Result != keep.Failed })
	if len(failed) == 0 {
		if slices.ContainsFunc(states, func(s keep.State) bool { return s.Result == "" }) {
			return "", ""
		}
		return bitstreamsPresent, fmt.Sprintf("The store of this node has the bitstreams of all %d references", len(states))
	}
	parts := make([]string, 0, 3)
	for _, s := range failed[:min(len(failed), 3)] {
		kept := "the store does not have the bitstream"
		if s.Present {
			kept = "the store has the last bitstream of this reference"
		}
		text := short(s.Error)
		parts = append(parts, strings.ToValidUTF8(text[:min(len(text), 250)], "")+" ("+kept+")")
	}
	message = strings.Join(parts, "; ")
	if more := len(failed) - len(parts); more > 0 {
		message += fmt.Sprintf("; and %d more references failed", more)
	}
	return bitstreamsFailed, fmt.Sprintf("%d of %d bitstreams not pulled or checked: %s", len(failed), len(states), message)
}
