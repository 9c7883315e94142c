package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

func main() {
	if len(os.Args) > 3 && os.Args[1] == "launch" {
		fmt.Fprintln(os.Stderr, "launch:", launch(os.Args[2], os.Args[3:]))
		os.Exit(1)
	}
	ctx := context.Background()
	if len(os.Args) == 2 && os.Args[1] == "peer" {
		if err := runPeer(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "container" {
		if err := runInContainer(); err != nil {
			fmt.Fprintln(os.Stderr, "container:", err)
			os.Exit(1)
		}
		return
	}
	status := 2
	m, err := newMachine()
	if err == nil {
		status, err = m.runStories(ctx)
	}
	if err != nil {
		fmt.Println("guest:", err) // on the console
	}
	if m != nil && m.host != nil {
		if err != nil {
			_ = m.host.say("guest: " + err.Error())
		}
		if err := m.sendOutput("/out"); err != nil {
			_ = m.host.say("guest: " + err.Error())
		}
		_, _ = m.host.ask(fmt.Sprintf("exit %d", status))
	}
	// The exit request asks the host to shut down the machine. If that fails, try to power it off. If that fails too,
	// /init returns, and the kernel panics.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// runStories runs all stories and returns the exit status.
func (m *machine) runStories(ctx context.Context) (status int, err error) {
	stories, err := read("/stories", parameter("only"))
	if err != nil {
		return 2, err
	}
	if err := m.host.say(fmt.Sprintf("%s booted in %.1f s, %d stories", m.release(), m.uptime().Seconds(), len(stories))); err != nil {
		return 2, err
	}
	tables := newTables()
	var failed []string
	for _, s := range stories {
		begin := time.Now()
		err := m.runStory(ctx, s, tables)
		verdict := "ok  "
		if err != nil {
			verdict = "FAIL"
			failed = append(failed, s.Name)
		}
		line := fmt.Sprintf("%s %-28s %5.1f s  %s", verdict, s.Name, time.Since(begin).Seconds(), s.Title)
		if err != nil {
			line += "\n     " + strings.ReplaceAll(err.Error(), "\n", "\n     ")
		}
		if err := m.host.say(line); err != nil {
			return 2, err
		}
	}
	for _, t := range []*table{tables.cards, tables.causes, tables.steps} {
		if len(t.rows) == 0 {
			continue
		}
		if err := m.host.say("\n" + strings.TrimSpace(t.String())); err != nil {
			return 2, err
		}
	}
	if len(failed) > 0 {
		return 1, m.host.say(fmt.Sprintf("%d of %d stories failed: %s", len(failed), len(stories), strings.Join(failed, ", ")))
	}
	return 0, m.host.say(fmt.Sprintf("%d stories ok in %.0f s", len(stories), m.uptime().Seconds()))
}

// runStory runs a story on a rig of its own.
func (m *machine) runStory(ctx context.Context, s story.Story, t tables) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storyTimeout, fmt.Errorf("timeout: the story still runs after %v", storyTimeout))
	defer cancel()
	// If a goroutine is blocked in the kernel, it ignores ctx. After 90 s, write all stacks to the console to show
	// where it is blocked.
	stuck := time.AfterFunc(90*time.Second, func() { _ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 2) })
	defer stuck.Stop()
	if err := m.clear(ctx); err != nil {
		return fmt.Errorf("preparing the story: %w", err)
	}
	r, err := newRig(ctx, m, s.Name, t)
	if err != nil {
		return fmt.Errorf("preparing the story: %w", err)
	}
	r.beginRecording(s)
	for _, step := range s.Steps {
		r.step = step
		if err := r.do(ctx, step); err != nil {
			return errors.Join(fmt.Errorf("line %d: %s: %w", step.Line, step, err), r.close())
		}
	}
	return r.close()
}

// read returns the stories in dir whose names contain the string in only, sorted by name.
func read(dir, only string) ([]story.Story, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+only+"*.txt"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("STORIES=%s: %w", only, err)
	case len(files) == 0:
		return nil, fmt.Errorf("STORIES=%s: found no story with this in its name, want at least one", only)
	}
	var stories []story.Story
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s, err := story.Parse(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		stories = append(stories, s)
	}
	return stories, nil
}

// parameter returns the value of NAME= on the kernel's command line, or "".
func parameter(name string) string {
	text, _ := os.ReadFile("/proc/cmdline")
	for _, word := range strings.Fields(string(text)) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}
