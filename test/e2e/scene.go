package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// story is a test on an empty node.
type story struct {
	name string
	run  func(*scene)
}

// needs maps a story to the oldest version of Kubernetes on which it can run: 36 means 1.36. Stories that run on all
// supported versions aren't listed.
var needs = map[string]int{
	"dra-extended": 36, "dra-extended-stale": 36, "dra-families": 36, // DRAExtendedResource
	"dra-break": taints, "dra-pulled": taints, "dra-tolerated": taints,
	"dra-bitstream": 36, // DRAConsumableCapacity
	"bitstreams":    36,
	"dra-status":    36, // DRAResourceClaimGranularStatusAuthorization
}

// taints is the first minor version of Kubernetes in which slices have taints (DRADeviceTaints), and a pod's status
// shows the health of its claims' devices (ResourceHealthStatus).
const taints = 36

// scene is the state of a running story. Its methods end the story when something fails.
type scene struct {
	options
	*cluster.Cluster
	ctx      context.Context
	resource string // resource name of the story's release
	users    string // namespace for the story's pods
	minor    int    // Kubernetes' minor version
	apart    bool
	beside   func() bool // runs one of the stories in apart; returns false if there are none left

	steps     []row
	stepBegan time.Time
	cleanups  []func()
}

// failure is the value of the panic that ends a story.
type failure struct{ error }

// choose returns the stories whose names match the pattern, in their usual order.
func choose(pattern *regexp.Regexp) []story {
	var chosen []story
	for _, s := range stories {
		if pattern.MatchString(s.name) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// runStory runs a story, cleans up after it, and reports whether both succeeded.
func runStory(ctx context.Context, c *cluster.Cluster, o options, minor int, st story, times *table, beside func() bool) bool {
	fmt.Printf("== %s\n", st.name)
	if from := needs[st.name]; minor < from {
		fmt.Printf("  NOT RUN: it needs Kubernetes 1.%d\n", from)
		return true
	}
	end := times.begin(st.name)
	s := &scene{options: o, Cluster: c, ctx: ctx, minor: minor, resource: "e2e.b-com.com/" + st.name, users: "default", apart: slices.Contains(apart, st.name), beside: beside}
	err := s.try(func() {
		s.check(os.RemoveAll(filepath.Join(o.out, st.name))) // state written after an earlier failure
		if s.apart {
			s.ownNamespace()
		} else {
			s.emptyNode()
			if strings.HasPrefix(st.name, "dra-") {
				s.emptyCheckpoint()
			}
		}
		st.run(s)
	})
	s.endStep(err)
	if err != nil {
		fmt.Printf("  FAILED: %v\n", err)
		if context.Cause(ctx) == nil {
			s.writeState(filepath.Join(o.out, st.name))
		}
	}
	// A failed cleanup fails this story, because leftover objects would make the next one fail.
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
	end(message, s.steps...)
	return err == nil
}

// try calls run. If a check ends run early, try returns the check's error.
func (s *scene) try(run func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			w, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = w.error
		}
	}()
	run()
	return nil
}

// emptyCheckpoint removes the kubelet's checkpoint if it contains an earlier story's entries. Otherwise, a driver would
// withhold the devices in these entries for five minutes, because it can't make the kubelet rewrite the file.
func (s *scene) emptyCheckpoint() {
	text, err := os.ReadFile(checkpointFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Contains(text, []byte(`"PodUID"`)) {
		return
	}
	s.check(err)
	s.check(s.StopKubelet())
	s.check(os.Remove(checkpointFile))
	s.check(s.StartKubelet())
}

const checkpointFile = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"

// emptyNode creates a simulated node without cards.
func (s *scene) emptyNode() {
	s.check(os.RemoveAll(simulated))
	s.check(os.RemoveAll(state))
	s.simulate()
}

// ownNamespace creates the namespace for the pods of the stories in apart, unless it already exists. The namespace is
// never deleted.
func (s *scene) ownNamespace() {
	s.users = "apart"
	if _, err := s.Client.CoreV1().Namespaces().Get(s.ctx, s.users, metav1.GetOptions{}); err != nil {
		s.must("kubectl", "create", "namespace", s.users)
	}
	s.awaitAccount()
}

// state is the daemon's state directory.
const state = cluster.Root + "/state"

// step ends the current step, prints how long it took, and begins the next one.
func (s *scene) step(format string, args ...any) {
	s.endStep(nil)
	s.steps = append(s.steps, row{name: fmt.Sprintf(format, args...)})
	s.stepBegan = time.Now()
}

// endStep ends the current step, if there is one, and prints it.
func (s *scene) endStep(err error) {
	if s.stepBegan.IsZero() {
		return
	}
	last := &s.steps[len(s.steps)-1]
	last.took = time.Since(s.stepBegan)
	if err != nil {
		last.failed = err.Error()
	}
	last.print(os.Stdout, "")
	s.stepBegan = time.Time{}
}

// check ends the story if err isn't nil.
func (s *scene) check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must runs one of the cluster's programs, and returns its output. If the program fails, the story ends.
func (s *scene) must(program string, args ...string) string {
	out := must(s.Run(s.ctx, program, args...))
	return out
}

// must returns value, or ends the story if err isn't nil.
func must[T any](value T, err error) T {
	if err != nil {
		panic(failure{err})
	}
	return value
}

// failf ends the story with an error.
func (s *scene) failf(format string, args ...any) { s.check(fmt.Errorf(format, args...)) }

// patience is how long [await] waits.
const patience = 100 * time.Second

// await calls read until it returns want, and returns how long it took. If read fails, await retries. name describes
// the value in errors.
func await[T any](s *scene, name string, read func() (T, error), want T) time.Duration {
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := read()
		diff := cmp.Diff(want, got)
		took := time.Since(began)
		switch {
		case err == nil && diff == "":
			return took
		case took > patience && err != nil:
			s.failf("%s: not as wanted within %v: %w", name, patience, err)
		case took > patience:
			s.failf("%s: not as wanted within %v (-want +got):\n%s", name, patience, diff)
		}
		s.check(s.Ended())
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.check(context.Cause(s.ctx))
		}
	}
}

// wait waits for the given time. It ends the story if one of the cluster's processes ends unexpectedly.
func (s *scene) wait(limit time.Duration) {
	select {
	case <-time.After(limit):
	case <-s.ctx.Done():
		s.check(context.Cause(s.ctx))
	}
	s.check(s.Ended())
}

// throughout calls check every 100 ms for the given time.
func (s *scene) throughout(limit time.Duration, check func()) {
	for end := time.Now().Add(limit); time.Now().Before(end); s.wait(100 * time.Millisecond) {
		check()
	}
}

// waitBeside is like wait, but runs stories from apart in the meantime, so it can take longer.
func (s *scene) waitBeside(limit time.Duration) {
	end := time.Now().Add(limit)
	for time.Now().Before(end) && s.beside() {
	}
	s.wait(time.Until(end))
}

// during calls do, and runs the tasks in the background until do returns.
func (s *scene) during(do func(), tasks ...func(context.Context)) {
	ctx, stop := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, task := range tasks {
		running.Go(func() { task(ctx) })
	}
	do()
}

// same ends the story if got and want differ.
func same[T any](s *scene, name string, got, want T) {
	if diff := cmp.Diff(want, got); diff != "" {
		s.failf("%s (-want +got):\n%s", name, diff)
	}
}

// refused ends the story unless err contains all of these strings.
func (s *scene) refused(name string, err error, texts ...string) {
	if err == nil {
		s.failf("%s: accepted, want an error", name)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			s.failf("%s: want %q in the error: %w", name, text, err)
		}
	}
}
