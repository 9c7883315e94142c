package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// A story is told on an empty node.
type story struct {
	name string
	tell func(*scene)
}

// scene is where a story is told. Its methods end the story when something is wrong.
type scene struct {
	options
	*cluster.Cluster
	ctx      context.Context
	resource string // that the story's release offers
	users    string // namespace of its pods

	steps     []row
	stepBegan time.Time
	cleanups  []func()
}

// wrong is what a story ends with.
type wrong struct{ error }

// choose returns the stories that match, in their order.
func choose(pattern *regexp.Regexp) []story {
	var chosen []story
	for _, s := range stories {
		if pattern.MatchString(s.name) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// tell tells a story, cleans up after it, and says whether it ended well.
func tell(ctx context.Context, c *cluster.Cluster, o options, st story, times *table) bool {
	fmt.Printf("== %s\n", st.name)
	times.begin(st.name)
	s := &scene{options: o, Cluster: c, ctx: ctx, resource: "e2e.b-com.com/" + st.name, users: "default"}
	err := s.try(func() {
		s.check(os.RemoveAll(filepath.Join(o.out, st.name))) // evidence of another run
		s.emptyNode()
		st.tell(s)
	})
	s.endStep(err)
	if err != nil {
		fmt.Printf("  FAILED: %v\n", err)
		if context.Cause(ctx) == nil {
			s.leaveEvidence(filepath.Join(o.out, st.name))
		}
	}
	// The last word is that all is gone, or the next story would fail.
	s.steps = append(s.steps, row{name: "clean up"})
	s.stepBegan = time.Now()
	if ctx.Err() == nil {
		cleaned := s.try(s.cleanUp)
		s.endStep(cleaned)
		err = errors.Join(err, cleaned)
	}
	message := ""
	if err != nil {
		message = err.Error()
	}
	times.end(message, s.steps...)
	return err == nil
}

// try returns what a story ended with.
func (s *scene) try(tell func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			w, ok := r.(wrong)
			if !ok {
				panic(r)
			}
			err = w.error
		}
	}()
	tell()
	return nil
}

// emptyNode makes a simulated node without cards.
func (s *scene) emptyNode() {
	s.check(os.RemoveAll(simulated))
	s.check(os.RemoveAll(state))
	s.simulate()
}

// state is the daemon's directory for its state.
const state = cluster.Root + "/state"

// step says what comes next, and how long what came before has taken.
func (s *scene) step(format string, args ...any) {
	s.endStep(nil)
	s.steps = append(s.steps, row{name: fmt.Sprintf(format, args...)})
	s.stepBegan = time.Now()
}

func (s *scene) endStep(err error) {
	if s.stepBegan.IsZero() {
		return
	}
	last := &s.steps[len(s.steps)-1]
	last.took = time.Since(s.stepBegan)
	if err != nil {
		last.wrong = err.Error()
	}
	last.print(os.Stdout, "")
	s.stepBegan = time.Time{}
}

// check ends the story when there is an error.
func (s *scene) check(err error) {
	if err != nil {
		panic(wrong{err})
	}
}

// failf ends the story.
func (s *scene) failf(format string, args ...any) { s.check(fmt.Errorf(format, args...)) }

// patience is the limit for anything that has no limit of its own.
const patience = 100 * time.Second

// await waits until what is looked at is what is wanted, and returns how long that
// took. What cannot be looked at yet is looked at again.
func await[T any](s *scene, what string, look func() (T, error), want T) time.Duration {
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := look()
		diff := cmp.Diff(want, got)
		took := time.Since(began)
		switch {
		case err == nil && diff == "":
			return took
		case took > patience && err != nil:
			s.failf("%s: not within %v: %w", what, patience, err)
		case took > patience:
			s.failf("%s: not within %v (-want +got):\n%s", what, patience, diff)
		}
		s.check(s.Ended())
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.check(context.Cause(s.ctx))
		}
	}
}

// same ends the story unless what is there is what is wanted.
func same[T any](s *scene, what string, got, want T) {
	if diff := cmp.Diff(want, got); diff != "" {
		s.failf("%s (-want +got):\n%s", what, diff)
	}
}

// refused ends the story unless an error says all this.
func (s *scene) refused(what string, err error, says ...string) {
	if err == nil {
		s.failf("%s: taken", what)
	}
	for _, words := range says {
		if !strings.Contains(err.Error(), words) {
			s.failf("%s: refused without %q: %w", what, words, err)
		}
	}
}
