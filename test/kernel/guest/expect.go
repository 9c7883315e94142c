package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// expect waits until the kubelet's lists and the daemon's response to /devices meet the expectation, and records how
// long it took for the kubelet to receive the list.
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
		ctx, cancel = context.WithTimeoutCause(ctx, e.Within, fmt.Errorf("timeout after %v", e.Within))
		defer cancel()
	}
	for {
		if met(e, r.newest().of(e.Resource)) {
			if r.daemon == nil {
				return errNoDaemon
			}
			devices, err := r.daemon.devices()
			if err == nil && e.Met(devices) && met(e, r.newest().of(e.Resource)) {
				r.note(e, false)
				return nil
			}
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return r.unmet(ctx)
		}
	}
}

// metric waits until one of the daemon's metrics has the value want. If want is "gone", it waits until the series
// doesn't exist. A series is written as in the daemon's response, with its labels sorted.
func (r *rig) metric(ctx context.Context, series, want string) error {
	if r.daemon == nil {
		return errNoDaemon
	}
	for {
		text, err := r.daemon.fetch("/metrics")
		got := "gone"
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), series+" "); ok {
				got = value
			}
		}
		if err == nil && got == want {
			return nil
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("%w; found %s, error %v", context.Cause(ctx), got, err)
		}
	}
}

// unmet returns the error for an expectation that hasn't been met. It includes the reason why ctx was cancelled, and the
// devices as the kubelet and the daemon report them.
func (r *rig) unmet(ctx context.Context) error {
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

// expectSysfs waits until the kubelet's lists contain exactly the ports in sysfs, all of them healthy.
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
			return fmt.Errorf("sysfs has %v; %w", want, r.unmet(ctx))
		}
	}
}

// withheld returns an error if any list that the kubelet has received since the last action shows the device as
// healthy.
func (r *rig) withheld(device string) error {
	if r.kubelet == nil {
		return errors.New("the kubelet is not running")
	}
	for _, l := range r.kubelet.since(r.cause.at, "") {
		if d, _ := l.Device(device); d.Healthy && l.Received.After(r.cause.at) {
			return fmt.Errorf("lists of the kubelet: found %s, want none with a healthy %s", show(l), device)
		}
	}
	return nil
}

// quiet waits for a duration, and returns an error if the devices in the kubelet's lists are different at the end.
func (r *rig) quiet(ctx context.Context, duration string) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	before := r.newest()
	if err := pause(ctx, d); err != nil {
		return err
	}
	if after := r.newest(); !reflect.DeepEqual(after.of("").Devices, before.of("").Devices) {
		return fmt.Errorf("lists of the kubelet: found %s, want no change of %s", after, before)
	}
	return nil
}

// note records how long it took from the story's last action until the kubelet received the first list that meets the
// expectation. If a uevent announces the change, the time starts with the uevent, because until then the drivers are
// still at work and the change isn't visible.
func (r *rig) note(e story.Expectation, measured bool) {
	if r.cause.name == "" || r.kubelet == nil || strings.Contains(e.Device, "-p") {
		return // the uevents of a card's other ports look the same
	}
	list, ok := firstMet(r.kubelet.since(r.cause.at, e.Resource), r.cause.at, e)
	if !ok {
		return
	}
	interval, took := r.since(e, list.Received)
	switch {
	case list.Number == 1:
		r.causes.add(r.cause.name+": "+interval+" (registration too)", took)
	case measured && e.Offered():
		r.cards.add("card in: "+interval, took)
	case measured:
		r.cards.add("card out: "+interval, took)
	default:
		r.causes.add(r.cause.name+": "+interval, took)
	}
}

// firstMet returns the first list that was received after a given time and meets the expectation. The first element of
// lists may have been received before that time. If that list already meets the expectation, nothing has changed, and
// firstMet returns false.
func firstMet(lists []simkubelet.List, after time.Time, e story.Expectation) (simkubelet.List, bool) {
	satisfies := func(l simkubelet.List) bool {
		d, listed := l.Device(e.Device)
		return listed && d.Healthy == e.Offered() || !listed && !e.Offered()
	}
	if len(lists) > 0 && !lists[0].Received.After(after) {
		if satisfies(lists[0]) {
			return simkubelet.List{}, false
		}
	} else if !e.Offered() {
		return simkubelet.List{}, false // without an earlier list, the device wasn't offered before
	}
	if at := slices.IndexFunc(lists, satisfies); at >= 0 {
		return lists[at], true
	}
	return simkubelet.List{}, false
}

// noteRead records how long it took from the port's bind uevent until the daemon had read a card that was plugged in.
// The rest of the time until the kubelet receives the list is spent sending the list.
func (r *rig) noteRead(verb, device string) {
	bind, ok := r.uevents.first(r.cause.at, "bind", "0000:"+device, "dfl-port.")
	read, logged := r.journal.last("device.added", device)
	if verb == "plug" && ok && logged && read.After(r.cause.at) {
		r.steps.add("daemon, card in: port's bind → it has read it", read.Sub(bind))
	}
}

// since returns the name and the length of a measured interval. For a card that was plugged in, the interval starts
// when the port or the function binds, which makes the card usable. For a card that was pulled, it starts with the
// first uevent. For all other changes, it starts with the request.
func (r *rig) since(e story.Expectation, received time.Time) (interval string, took time.Duration) {
	switch r.cause.name {
	case "plug", "unplug", "bind", "unbind", "remove", "rescan", "insmod", "rmmod":
		card := "0000:" + e.Device
		if e.Offered() {
			if at, ok := r.uevents.first(r.cause.at, "bind", card, "dfl-port."); ok {
				return "port's bind → list", received.Sub(at)
			}
			if at, ok := r.uevents.first(r.cause.at, "bind", card, card); ok {
				return "function's bind → list", received.Sub(at)
			}
		} else if at, _, ok := r.uevents.span(r.cause.at, card); ok {
			return "first uevent → list", received.Sub(at)
		}
	}
	return "request → list", received.Sub(r.cause.at)
}
