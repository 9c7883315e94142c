package main

import (
	"bytes"
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

// beginRecording remembers s for the headers of its recordings, and discards earlier uevents.
func (r *rig) beginRecording(s story.Story) {
	r.story = s
	r.uevents.take()
}

// heard waits until a uevent has been received that has this action and device, and whose message contains text.
// Stories use it to wait for the last uevent that a step causes.
func (r *rig) heard(ctx context.Context, action, device, text string) error {
	for !r.uevents.contain(action, device, text) {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// record writes a board with the machine's current state.
func (r *rig) record(ctx context.Context, name string) error {
	r.uevents.settle(ctx)
	var text []byte
	err := r.opens.unrecorded(func() (err error) {
		text, err = fixture.Board("/", r.head())
		return err
	})
	if err != nil {
		return err
	}
	return writeFixture("sysfs", name+".txtar", text)
}

// recordUEvents writes the uevents received since the previous call. Without a name, it discards them.
func (r *rig) recordUEvents(ctx context.Context, name []string) error {
	r.uevents.settle(ctx)
	messages := r.uevents.take()
	head := r.head()
	r.done = r.step.Line
	if len(name) == 0 {
		return nil
	}
	return writeFixture("uevents", name[0]+".txt", fixture.UEvents(messages, head))
}

// head returns a recording's header, with the steps that precede the recording. For a board, these are all of the
// story's steps so far; for uevents, only the steps since the last recording of uevents.
func (r *rig) head() fixture.Head {
	path := "test/kernel/" + parameter("stories") + "/" + r.story.Name + ".txt"
	h := fixture.Head{Title: r.story.Title, Kernel: kernelName(), Story: path}
	for _, before := range r.story.Steps {
		silent := []string{"record", "uevents", "heard", "settle"}
		if before.Line < r.step.Line && !slices.Contains(silent, before.Verb) && (r.step.Verb == "record" || before.Line > r.done) {
			h.Steps = append(h.Steps, before.String())
		}
	}
	return h
}

// writeFixture writes a file to the output directory, where the host finds it. The file's name includes the kernel
// version.
func writeFixture(kind, name string, text []byte) error {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	numbers := strings.SplitN(string(release), ".", 3)
	if len(numbers) < 3 {
		return fmt.Errorf("osrelease: found %q, want N.N.…", release)
	}
	dir := filepath.Join("/out", kind)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("kernel-%s.%s-%s", numbers[0], numbers[1], name)), text, 0o644)
}

// kernelName returns the kernel's release and package version.
func kernelName() string {
	name := "Linux " + text("/proc/sys/kernel/osrelease")
	// The version looks like #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16).
	if _, version, ok := strings.Cut(text("/proc/sys/kernel/version"), "Debian "); ok {
		version, _, _ = strings.Cut(version, " ")
		name += " (Debian " + version + ")"
	}
	return name
}

// take returns the messages received since the last call.
func (u *uevents) take() [][]byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	var messages [][]byte
	for _, e := range u.received[u.taken:] {
		messages = append(messages, e.message)
	}
	u.taken = len(u.received)
	return messages
}

// contain reports whether a uevent with this action, device and text has been received since the last call to take.
func (u *uevents) contain(action, device, text string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.received[u.taken:], func(e uevent) bool {
		return e.action == action && filepath.Base(e.devpath) == device && bytes.Contains(e.message, []byte(text))
	})
}
