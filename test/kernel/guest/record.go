package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/test/kernel/fixture"
	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// tells makes s the story that what is recorded comes from.
func (r *rig) tells(s story.Story) {
	r.story = s
	r.uevents.take() // what making the machine ready came with is none of it
}

// heard waits until the kernel has said what is the last of what is being recorded.
func (r *rig) heard(ctx context.Context, action, device string) error {
	for !r.uevents.said(action, device) {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// record leaves a board of the machine as it is now.
func (r *rig) record(ctx context.Context, s story.Step) error {
	r.uevents.settle(ctx)
	text, err := fixture.Board("/", r.head(s))
	if err != nil {
		return err
	}
	return leaveFixture("sysfs", s.Args[0]+".txtar", text)
}

// recordUEvents leaves the uevents since the last such step. Without a name they are
// forgotten.
func (r *rig) recordUEvents(ctx context.Context, s story.Step) error {
	r.uevents.settle(ctx)
	messages := r.uevents.take()
	head := r.head(s)
	r.done = s.Line
	if len(s.Args) == 0 {
		return nil
	}
	return leaveFixture("uevents", s.Args[0]+".txt", fixture.UEvents(messages, head))
}

// head says what led to a step: all of the story, for uevents what came since the last.
func (r *rig) head(s story.Step) fixture.Head {
	h := fixture.Head{Title: r.story.Title, Kernel: kernelName(), Story: "test/kernel/recordings/" + r.story.Name + ".txt"}
	for _, before := range r.story.Steps {
		silent := []string{"record", "uevents", "heard", "settle"}
		if before.Line < s.Line && !slices.Contains(silent, before.Verb) && (s.Verb == "record" || before.Line > r.done) {
			h.Steps = append(h.Steps, before.String())
		}
	}
	return h
}

// leaveFixture puts a file where the host finds it, named after the kernel.
func leaveFixture(kind, name string, text []byte) error {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	numbers := strings.SplitN(string(release), ".", 3)
	if len(numbers) < 3 {
		return fmt.Errorf("kernel release %q, want N.N.…", release)
	}
	dir := filepath.Join("/out", kind)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("kernel-%s.%s-%s", numbers[0], numbers[1], name)), text, 0o644)
}

// kernelName is the release, and the version of the package it comes from.
func kernelName() string {
	name := "Linux " + text("/proc/sys/kernel/osrelease")
	// #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)
	if _, version, ok := strings.Cut(text("/proc/sys/kernel/version"), "Debian "); ok {
		version, _, _ = strings.Cut(version, " ")
		name += " (Debian " + version + ")"
	}
	return name
}

// take returns the messages that were heard since it was last called.
func (u *uevents) take() [][]byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	var messages [][]byte
	for _, e := range u.heard[u.taken:] {
		messages = append(messages, e.message)
	}
	u.taken = len(u.heard)
	return messages
}

// said says whether there was such a uevent since take was last called.
func (u *uevents) said(action, device string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.heard[u.taken:], func(e uevent) bool {
		return e.action == action && filepath.Base(e.devpath) == device
	})
}
