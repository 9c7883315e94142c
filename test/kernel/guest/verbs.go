package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// run executes a step whose arguments [story.Parse] has checked.
type run = func(ctx context.Context, r *rig, a []string) error

// acts contains the verbs that change something. The times that the expect verb records start with the latest of these
// changes.
var acts = map[string]run{
	"start": func(ctx context.Context, r *rig, a []string) error { return r.start(ctx, a) },
	"end":   func(_ context.Context, r *rig, _ []string) error { return r.end() },
	"signal": func(_ context.Context, r *rig, a []string) error {
		if r.daemon == nil {
			return errNoDaemon
		}
		return r.daemon.process.Process.Signal(unix.SignalNum("SIG" + a[0]))
	},
	"rule":    func(_ context.Context, _ *rig, a []string) error { return addRule(configFile, a[0], a[1:]) },
	"kubelet": func(_ context.Context, r *rig, a []string) error { return r.controlKubelet(a[0]) },
	"hold":    func(ctx context.Context, r *rig, a []string) error { return r.hold(ctx, a[0], a[1]) },
	"release": func(_ context.Context, r *rig, a []string) error { r.release(a[0]); return nil },

	"claims":     func(_ context.Context, r *rig, a []string) error { return r.runClaims(a[0]) },
	"claim":      func(ctx context.Context, r *rig, a []string) error { return r.claim(ctx, a, true) },
	"claimfails": func(ctx context.Context, r *rig, a []string) error { return r.claim(ctx, a, false) },

	"plug":    func(_ context.Context, r *rig, a []string) error { return r.ask("plug", a) },
	"unplug":  func(_ context.Context, r *rig, a []string) error { return r.ask("unplug", a) },
	"host":    func(_ context.Context, r *rig, a []string) error { return r.ask(a[0], a[1:]) },
	"cycle":   func(_ context.Context, r *rig, a []string) error { return r.cycle(number(a), a[1:]) },
	"measure": func(_ context.Context, r *rig, a []string) error { return r.measure(r.ctx, number(a), a[1:]) },
	"costs":   func(_ context.Context, r *rig, a []string) error { return r.costs(r.ctx, number(a), a[1:]) },
	"random":  func(_ context.Context, r *rig, a []string) error { return r.random(number(a), a[1]) },

	"use":   func(_ context.Context, r *rig, a []string) error { return r.use(a[0], len(a) == 2) },
	"leave": func(_ context.Context, r *rig, a []string) error { return r.leave(a[0]) },

	"tool":           succeeds("tool"),
	"toolfails":      fails("tool"),
	"plugin":         succeeds("plugin"),
	"pluginfails":    fails("plugin"),
	"container":      succeeds("container"),
	"containerfails": fails("container"),
	"begin":          func(ctx context.Context, r *rig, a []string) error { return r.begin(ctx, a[0], a[1], a[2:]) },
	"kill":           func(_ context.Context, r *rig, a []string) error { return r.kill(a[0], len(a) == 2) },
	"bitstream":      func(_ context.Context, _ *rig, a []string) error { return writeBitstream(bitstreamDir, a) },

	"insmod": func(_ context.Context, _ *rig, a []string) error { return insmod(modules(a, true)) },
	"rmmod":  func(_ context.Context, _ *rig, a []string) error { return rmmod(modules(a, false)) },
	"bind": func(ctx context.Context, r *rig, a []string) error {
		if len(a) == 2 {
			return r.bindTo(ctx, a[0], a[1])
		}
		return write(driver(a[0])+"/bind", a[0])
	},
	"unbind": func(_ context.Context, r *rig, a []string) error {
		if path := driver(a[0]) + "/unbind"; len(a) == 2 {
			return r.writeHeld(path, a[0])
		} else {
			return write(path, a[0])
		}
	},
	"vfs": func(_ context.Context, r *rig, a []string) error {
		path := pciDir(a[0]) + "/sriov_numvfs"
		if len(a) == 3 {
			return r.writeHeld(path, a[1])
		}
		return r.opens.unrecorded(func() error { return write(path, a[1]) })
	},
	"inject":       func(_ context.Context, _ *rig, a []string) error { return inject(a[0], a[1]) },
	"remove":       func(_ context.Context, _ *rig, a []string) error { return write(pciDir(a[0])+"/remove", "1") },
	"enable":       func(_ context.Context, _ *rig, a []string) error { return write(pciDir(a[0])+"/enable", "1") },
	"rescan":       func(context.Context, *rig, []string) error { return write("/sys/bus/pci/rescan", "1") },
	"clear":        func(_ context.Context, _ *rig, a []string) error { return clearErrors(a[0]) },
	"write":        func(_ context.Context, _ *rig, a []string) error { return write(a[0], a[1]) },
	"program":      func(_ context.Context, r *rig, a []string) error { return r.startProgram(a[0], a[1], a[2:]) },
	"release-port": func(_ context.Context, r *rig, a []string) error { return r.movePort(portRelease, a[0], number(a[1:])) },
	"assign-port":  func(_ context.Context, r *rig, a []string) error { return r.movePort(portAssign, a[0], number(a[1:])) },
	"forge":        func(_ context.Context, _ *rig, a []string) error { return forge(a[0] == "through", a[1]) },
}

// checks contains all other verbs.
var checks = map[string]run{
	"expect":   func(ctx context.Context, r *rig, a []string) error { return r.expect(ctx, a) },
	"withheld": func(_ context.Context, r *rig, a []string) error { return r.withheld(a[0]) },
	"quiet":    func(ctx context.Context, r *rig, a []string) error { return r.quiet(ctx, a[0]) },
	"log": func(ctx context.Context, r *rig, a []string) error {
		return r.journal.await(ctx, a[0], fields(a[1:]))
	},
	"nolog": func(_ context.Context, r *rig, a []string) error {
		if r.journal.find(a[0], fields(a[1:]), false) {
			return fmt.Errorf("log: found such a line, want none; lines with this event:\n%s", r.journal.with(a[0]))
		}
		return nil
	},
	"given": func(ctx context.Context, r *rig, a []string) error { return r.given(ctx, a[0], a[1:]) },
	"cdi":   func(ctx context.Context, r *rig, a []string) error { return r.cdi(ctx, a[0], a[1:]) },
	"reads": func(_ context.Context, _ *rig, a []string) error {
		if got := text(a[0]); got != a[1] {
			return fmt.Errorf("found %q, want %q", got, a[1])
		}
		return nil
	},
	"metric":    func(ctx context.Context, r *rig, a []string) error { return r.metric(ctx, a[0], a[1]) },
	"exclusive": func(_ context.Context, r *rig, a []string) error { return r.exclusive(a[0]) },
	"refused":   func(_ context.Context, r *rig, a []string) error { return r.refused(a[0]) },
	"reaches":   func(_ context.Context, r *rig, a []string) error { return r.reaches(a[0], a[1]) },
	"open": func(_ context.Context, r *rig, a []string) error {
		if len(a) == 2 {
			return r.openOwn(a[0])
		}
		return r.openNode(a[0])
	},
	"close": func(_ context.Context, r *rig, a []string) error { return r.closeNode(a[0]) },
	"mknod": func(_ context.Context, r *rig, a []string) error { return r.mknod(a[0]) },

	"programmed":  func(ctx context.Context, r *rig, a []string) error { return r.programmed(ctx, a[0]) },
	"programming": func(ctx context.Context, r *rig, a []string) error { return r.programming(ctx, a[0]) },
	"locking":     func(ctx context.Context, _ *rig, a []string) error { return locking(ctx, number(a)) },
	"ended":       func(ctx context.Context, r *rig, a []string) error { return r.ended(ctx, a[0], a[1]) },
	"says":        func(_ context.Context, r *rig, a []string) error { return r.says(strings.Join(a, " ")) },
	"opened": func(_ context.Context, r *rig, a []string) error {
		names, err := r.opens.byCommands()
		if err == nil && !slices.Equal(names, a) {
			err = fmt.Errorf("nodes opened by commands: found %v, want %v", names, a)
		}
		return err
	},

	"settle": func(ctx context.Context, r *rig, _ []string) error { r.uevents.settle(ctx); return nil },
	"heard": func(ctx context.Context, r *rig, a []string) error {
		return r.heard(ctx, a[0], a[1], strings.Join(a[2:], ""))
	},
	"record":  func(ctx context.Context, r *rig, a []string) error { return r.record(ctx, a[0]) },
	"uevents": func(ctx context.Context, r *rig, a []string) error { return r.recordUEvents(ctx, a) },
}

// succeeds and fails run a command until it ends. With succeeds, the command must succeed; with fails, it must fail.
func succeeds(kind string) run {
	return func(ctx context.Context, r *rig, a []string) error { return r.run(ctx, kind, "ok", a) }
}

func fails(kind string) run {
	return func(ctx context.Context, r *rig, a []string) error { return r.run(ctx, kind, "failed", a) }
}

// number returns the first argument.
func number(a []string) int {
	n, _ := strconv.Atoi(a[0]) // Parse has checked that it is a number
	return n
}

// fields parses the expected fields of a log line. Lists and numbers are written as in the log's JSON, but without
// brackets and quotes.
func fields(words []string) map[string]string {
	values := map[string]string{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		values[key] = value
	}
	return values
}

var errNoDaemon = errors.New("the daemon is not running")

// start starts the daemon: [as SANDBOX] [--FLAG=VALUE …].
func (r *rig) start(ctx context.Context, flags []string) (err error) {
	if r.daemon != nil {
		return errors.New("the daemon is running already")
	}
	sandbox := "root"
	if len(flags) > 0 && flags[0] == "as" {
		sandbox, flags = flags[1], flags[2:]
	}
	r.daemon, err = startDaemon(ctx, sandbox, flags, r.journal)
	return err
}

// end ends the daemon.
func (r *rig) end() (err error) {
	if r.daemon == nil {
		return errNoDaemon
	}
	err, r.daemon = r.daemon.end(), nil
	return err
}

// controlKubelet starts, stops or restarts the kubelet.
func (r *rig) controlKubelet(verb string) (err error) {
	if verb != "start" && r.kubelet != nil {
		r.kubelet.end()
		r.kubelet = nil
	}
	if verb != "stop" && r.kubelet == nil {
		if r.kubelet, err = startKubelet(r.ctx); err == nil {
			r.pods.Join(r.kubelet.kubelet)
		}
	}
	return err
}

// ask sends a request to the host.
func (r *rig) ask(request string, args []string) error {
	_, err := r.host.ask(strings.Join(append([]string{request}, args...), " "))
	return err
}

// do executes a step.
func (r *rig) do(ctx context.Context, s story.Step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("timeout after %v", stepTimeout))
	defer cancel()
	if check, ok := checks[s.Verb]; ok {
		return check(ctx, r, s.Args)
	}
	name := s.Verb
	if name == "host" {
		name += " " + s.Args[0]
	}
	r.cause = cause{name, time.Now()}
	return acts[s.Verb](ctx, r, s.Args)
}
