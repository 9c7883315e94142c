package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// expect waits until what the kubelet was told, and what the daemon shows, are as
// they should be, and notes how long the kubelet had to wait.
func (r *rig) expect(ctx context.Context, args []string) error {
	if len(args) == 1 {
		return r.expectSysfs(ctx)
	}
	e, err := story.ParseExpectation(args)
	if err != nil {
		return err
	}
	if e.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.Within, fmt.Errorf("not within %v", e.Within))
		defer cancel()
	}
	for {
		if met(e, r.newest().of(e.Resource)) {
			if r.daemon == nil {
				return errors.New("no daemon runs")
			}
			devices, err := r.daemon.devices()
			if err == nil && e.Met(devices) && met(e, r.newest().of(e.Resource)) {
				r.note(e, false)
				return nil
			}
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return r.disappointed(ctx)
		}
	}
}

// disappointed says what there is instead.
func (r *rig) disappointed(ctx context.Context) error {
	text := fmt.Sprintf("%v; the kubelet has %s", context.Cause(ctx), r.newest())
	if r.daemon == nil {
		return errors.New(text)
	}
	devices, err := r.daemon.devices()
	if err != nil {
		return fmt.Errorf("%s; the daemon: %w", text, err)
	}
	return fmt.Errorf("%s; the daemon has %v", text, devices)
}

// expectSysfs waits until the kubelet has what sysfs shows, all of it healthy.
func (r *rig) expectSysfs(ctx context.Context) error {
	for {
		dirs, err := ports()
		if err != nil {
			return err
		}
		want := slices.Sorted(maps.Keys(dirs))
		var got []string
		for _, d := range r.newest().of("").Devices {
			if d.Healthy {
				got = append(got, d.ID)
			}
		}
		slices.Sort(got)
		if slices.Equal(want, got) && len(want) == len(r.newest().of("").Devices) {
			return nil
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("sysfs has %v; %w", want, r.disappointed(ctx))
		}
	}
}

// withheld returns an error if a list that the kubelet received since the last action has
// the device as healthy.
func (r *rig) withheld(device string) error {
	if r.kubelet == nil {
		return errors.New("no kubelet runs")
	}
	for _, l := range r.kubelet.since(r.cause.at, "") {
		if d, _ := l.Device(device); d.Healthy && l.Received.After(r.cause.at) {
			return fmt.Errorf("the kubelet was told that it is healthy: %s", show(l))
		}
	}
	return nil
}

// quiet wants the kubelet to be told nothing for a while.
func (r *rig) quiet(ctx context.Context, d time.Duration) error {
	before := r.newest()
	if err := pause(ctx, d); err != nil {
		return err
	}
	if after := r.newest(); after.of("").Number != before.of("").Number {
		return fmt.Errorf("the kubelet was sent %s after %s", after, before)
	}
	return nil
}

// note measures how long it took from the cause until the kubelet had the first list
// that tells of it. Where a uevent tells of it too, it counts from there: before, the
// drivers are at work and there is nothing to be seen.
func (r *rig) note(e story.Expectation, measured bool) {
	if r.cause.what == "" || r.kubelet == nil || strings.Contains(e.Device, "-p") {
		return // whose uevent it is does not show in a further port's
	}
	list, ok := firstTold(r.kubelet.since(r.cause.at, e.Resource), r.cause.at, e)
	if !ok {
		return
	}
	what, took := r.since(e, list.Received)
	switch {
	case list.Number == 1:
		r.causes.add(r.cause.what+": "+what+" (registration too)", took)
	case measured && e.Offered():
		r.cards.add("card in: "+what, took)
	case measured:
		r.cards.add("card out: "+what, took)
	default:
		r.causes.add(r.cause.what+": "+what, took)
	}
}

// firstTold is the first of the lists after a moment that tells what is expected;
// false when the one before it did already. The first list may be older than the
// moment.
func firstTold(lists []simkubelet.List, after time.Time, e story.Expectation) (simkubelet.List, bool) {
	told := func(l simkubelet.List) bool {
		d, listed := l.Device(e.Device)
		return listed && d.Healthy == e.Offered() || !listed && !e.Offered()
	}
	if len(lists) > 0 && !lists[0].Received.After(after) {
		if told(lists[0]) {
			return simkubelet.List{}, false
		}
	} else if !e.Offered() {
		return simkubelet.List{}, false // without a list, it was not offered
	}
	if at := slices.IndexFunc(lists, told); at >= 0 {
		return lists[at], true
	}
	return simkubelet.List{}, false
}

// noteRead measures how long it took from the uevent until the daemon had read a card
// that came: the rest of the way is the list's.
func (r *rig) noteRead(verb, device string) {
	bind, ok := r.uevents.first(r.cause.at, "bind", "0000:"+device, "dfl-port.")
	read, logged := r.journal.last("device.added", device)
	if verb == "plug" && ok && logged && read.After(r.cause.at) {
		r.steps.add("daemon, card in: port's bind → it has read it", read.Sub(bind))
	}
}

// since is from where it is measured, and how long it took. What comes can be used
// from its port's bind on; what goes is going from the first uevent on.
func (r *rig) since(e story.Expectation, received time.Time) (what string, took time.Duration) {
	switch r.cause.what {
	case "plug", "unplug", "bind", "unbind", "remove", "rescan", "insmod", "rmmod":
		card := "0000:" + e.Device
		if e.Offered() {
			if at, ok := r.uevents.first(r.cause.at, "bind", card, "dfl-port."); ok {
				return "port's bind → list", received.Sub(at)
			}
		} else if at, _, ok := r.uevents.span(r.cause.at, card); ok {
			return "first uevent → list", received.Sub(at)
		}
	}
	return "request → list", received.Sub(r.cause.at)
}
