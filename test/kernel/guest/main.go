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
		if err := bePeer(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "container" {
		if err := beContainer(); err != nil {
			fmt.Fprintln(os.Stderr, "container:", err)
			os.Exit(1)
		}
		return
	}
	status := 2
	m, err := newMachine()
	if err == nil {
		status, err = m.tell(ctx)
	}
	if err != nil {
		fmt.Println("guest:", err) // on the console
	}
	if m != nil && m.host != nil {
		if err != nil {
			_ = m.host.say("guest: " + err.Error())
		}
		if err := m.leave("/out"); err != nil {
			_ = m.host.say("guest: " + err.Error())
		}
		_, _ = m.host.ask(fmt.Sprintf("exit %d", status))
	}
	// The host ends the machine. If it cannot, this panics the kernel, which does.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// tell runs the stories and returns the status.
func (m *machine) tell(ctx context.Context) (status int, err error) {
	stories, err := read("/stories", only())
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
		err := m.one(ctx, s, tables)
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

// one runs a story on a rig of its own.
func (m *machine) one(ctx context.Context, s story.Story, t tables) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("the story was not over after a minute"))
	defer cancel()
	// Who hangs in the kernel does not hear of ctx: the console shows where.
	stuck := time.AfterFunc(90*time.Second, func() { _ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 2) })
	defer stuck.Stop()
	if err := m.clear(ctx); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	r, err := newRig(ctx, m, s.Name, t)
	if err != nil {
		return fmt.Errorf("before: %w", err)
	}
	r.tells(s)
	for _, step := range s.Steps {
		if err := r.do(ctx, step); err != nil {
			return errors.Join(fmt.Errorf("line %d: %s: %w", step.Line, step, err), r.close())
		}
	}
	return r.close()
}

// read reads the stories with this in their name, in the order of their names.
func read(dir, only string) ([]story.Story, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+only+"*.txt"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("STORIES=%s: %w", only, err)
	case len(files) == 0:
		return nil, fmt.Errorf("no story has %q in its name", only)
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

// only is what the kernel's command line says after "only=".
func only() string {
	text, _ := os.ReadFile("/proc/cmdline") // without it, all
	for _, word := range strings.Fields(string(text)) {
		if value, ok := strings.CutPrefix(word, "only="); ok {
			return value
		}
	}
	return ""
}
