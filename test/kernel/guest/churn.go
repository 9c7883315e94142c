package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// slots is the number of card slots: rp0 to rp3.
const slots = 4

// cycle plugs in a card and pulls it, n times. It waits for the kernel each time, but not for the daemon.
func (r *rig) cycle(n int, card []string) error {
	for range n {
		if err := errors.Join(r.plug(card), r.pull(card)); err != nil {
			return err
		}
	}
	return nil
}

// plug plugs in a card and waits until the kernel has stopped sending uevents.
func (r *rig) plug(card []string) error {
	_, err := r.host.ask("plug " + strings.Join(card, " "))
	r.uevents.settle(r.ctx)
	return err
}

// pull undoes plug.
func (r *rig) pull(card []string) error {
	_, err := r.host.ask("unplug " + card[0])
	r.uevents.settle(r.ctx)
	return err
}

// slotOf returns the address of a card's function 0, in the form used in device IDs: 01:00.0 for rp0.
func slotOf(card []string) (string, error) {
	slot, err := strconv.Atoi(strings.TrimPrefix(card[2], "rp"))
	if err != nil || slot < 0 || slot >= slots {
		return "", fmt.Errorf("slot: found %q, want rp0 to rp%d", card[2], slots-1)
	}
	return fmt.Sprintf("%02x:00.0", slot+1), nil
}

// measure plugs in a card and pulls it, n times. After each change, it waits until the kubelet has received the new
// list.
func (r *rig) measure(ctx context.Context, n int, card []string) error {
	device, err := slotOf(card)
	if err != nil {
		return err
	}
	for i := range n {
		for _, half := range []struct{ verb, request, health string }{
			{"plug", fmt.Sprintf("plug %s %s %s", card[0], card[1], card[2]), "healthy"},
			{"unplug", "unplug " + card[0], "gone"},
		} {
			r.cause = cause{half.verb, time.Now()}
			if _, err := r.host.ask(half.request); err != nil {
				return err
			}
			bounded, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("timeout after %v", stepTimeout))
			err := r.await(bounded, story.Expectation{Device: device, Health: half.health})
			cancel()
			if err != nil {
				return fmt.Errorf("round %d: %s: %w", i+1, half.verb, err)
			}
			r.uevents.settle(ctx)
			r.noteRead(half.verb, device)
		}
	}
	return nil
}

// await waits until the kubelet's lists meet the expectation. It doesn't query the daemon, because that would take
// processor time away from what is being measured.
func (r *rig) await(ctx context.Context, e story.Expectation) error {
	for !met(e, r.newest().of(e.Resource)) {
		if pause(ctx, 5*time.Millisecond) != nil {
			return r.unmet(ctx)
		}
	}
	r.note(e, true)
	return nil
}

// random plugs cards into random slots and pulls them, without waiting after each step. The seed makes runs repeatable.
func (r *rig) random(n int, seed string) error {
	number, err := strconv.ParseUint(seed, 0, 64)
	if err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(number, 0))
	models := []string{"a10", "d5005", "a10-vf"}
	for range n {
		// Ask the host which cards are plugged in, because the guest may have released one by itself.
		plugged, err := r.host.ask("cards")
		if err != nil {
			return err
		}
		slot := dice.IntN(slots)
		name := fmt.Sprintf("r%d", slot)
		request := "unplug " + name
		if !slices.Contains(strings.Fields(plugged), name) {
			request = fmt.Sprintf("plug %s %s rp%d", name, models[dice.IntN(len(models))], slot)
		}
		if _, err := r.host.ask(request); err != nil {
			return err
		}
	}
	r.uevents.settle(r.ctx)
	return nil
}
