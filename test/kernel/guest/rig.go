package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"b-com.com/accelerator-device-plugin/server/standin"
	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// patience bounds every wait of a story; nothing is expected to take as long.
const patience = 15 * time.Second

// rig is the state of one story.
type rig struct {
	*machine
	ctx context.Context // of what it starts
	tables
	log *os.File

	kubelet *feed // nil: none runs
	pods    *standin.PodResources
	daemon  *daemon // nil: none runs
	journal *journal
	cause   cause
	program chan error // the result of the last programming
	holds   []hold

	story story.Story // for the heads of recordings
	done  int         // line of the last step that took uevents
}

// cause is what was done last.
type cause struct {
	what string // verb, of host with its request
	at   time.Time
}

func newRig(ctx context.Context, m *machine, name string, t tables) (*rig, error) {
	r := &rig{machine: m, ctx: ctx, tables: t, program: make(chan error, 1)}
	for _, left := range []string{filepath.Join(kubeletDir, standin.Checkpoint), containerDir} {
		if err := os.RemoveAll(left); err != nil { // of the story before
			return nil, err
		}
	}
	var err error
	if r.log, err = os.Create(filepath.Join("/out", name+".log")); err != nil {
		return nil, err
	}
	r.journal = &journal{copy: r.log}
	if r.kubelet, err = startKubelet(ctx); err != nil {
		return nil, err
	}
	if r.pods, err = standin.StartPodResources(ctx, podsSocket); err != nil {
		return nil, err
	}
	return r, openToAll(filepath.Dir(podsSocket), podsSocket)
}

// close ends what runs, and says what is wrong with the story as a whole.
func (r *rig) close() error {
	var errs []error
	if r.daemon != nil {
		errs = append(errs, r.daemon.end())
	}
	if r.kubelet != nil {
		r.kubelet.end()
	}
	r.pods.Stop()
	errs = append(errs, r.opens.check())
	for _, complaint := range r.complaints() {
		errs = append(errs, fmt.Errorf("the kernel complains: %s", complaint))
	}
	return errors.Join(append(errs, r.log.Close())...)
}

// do does one step.
func (r *rig) do(ctx context.Context, s story.Step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	if s.Verb == "random" || s.Verb == "measure" || s.Verb == "cycle" || s.Verb == "costs" {
		ctx, cancel = context.WithCancel(r.ctx)
	}
	defer cancel()
	switch s.Verb {
	case "expect":
		return r.expect(ctx, s.Args)
	case "quiet":
		return r.quiet(ctx, s.Duration())
	case "log":
		event, fields := story.Fields(s.Args)
		return r.journal.await(ctx, event, fields)
	case "nolog":
		if event, fields := story.Fields(s.Args); r.journal.find(event, fields, false) {
			return fmt.Errorf("the daemon logged\n%s", r.journal.with(event))
		}
		return nil
	case "programmed":
		return r.programmed(ctx, s.Args[0])
	case "given":
		return r.given(ctx, s.Args[0], s.Args[1:])
	case "cdi":
		return r.cdi(ctx, s.Args[0], s.Args[1:])
	case "exclusive":
		return r.exclusive(s.Args[0])
	case "open":
		return r.openNode(s.Args[0])
	case "mknod":
		return r.mknod(s.Args[0])
	case "reaches":
		return r.reaches(s.Args[0], s.Args[1])
	case "withheld":
		return r.withheld(s.Args[0])
	case "settle":
		r.uevents.settle(ctx)
		return nil
	case "heard":
		return r.heard(ctx, s.Args[0], s.Args[1])
	case "record":
		return r.record(ctx, s)
	case "uevents":
		return r.recordUEvents(ctx, s)
	}
	r.cause = cause{s.Verb, time.Now()}
	if s.Verb == "host" {
		r.cause.what += " " + s.Args[0]
	}
	return r.act(ctx, s)
}
