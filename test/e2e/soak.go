package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// A soak runs random operations in rounds. In each round, several lanes choose operations at random, each at its own
// pace. The round ends when no operation is running and all faults have ended. Everything must then agree (see
// [soaking.quiet]).
//
// Each round has a different mixture: some kinds of operations are missing, and others are frequent. If everything
// happened all the time, one kind could mask bugs that another would reveal ("swarm testing").
const (
	roundTime = 4 * time.Minute
	opLimit   = 3 * time.Minute // time limit for an operation
)

// soaking is a running soak.
type soaking struct {
	base  *scene
	began time.Time
	seed  uint64
	bench bench
	crowd crowdOfSoak
	watch watching

	others otherPlugins

	changing atomic.Bool // whether an upgrade is, or may be, changing the devices' names

	mu      sync.Mutex // guards the rest
	file    *soak.Writer
	checker *soak.Checker
	lines   []soak.Line
	wrong   []soak.Wrong
	count   int             // number of operations so far
	busy    map[string]bool // parts that currently have a fault
	naming  naming
	former  naming
}

// act gives an operation access to the soak and to a scene of its own. The scene's checks end the operation rather than
// the soak.
type act struct {
	*scene
	*soaking
}

// within runs part of an operation with its own time limit.
func (a act) within(limit time.Duration, run func(own act)) error {
	ctx, cancel := context.WithTimeout(a.ctx, limit)
	defer cancel()
	own := *a.scene
	own.ctx = ctx
	return own.try(func() { run(act{&own, a.soaking}) })
}

// operation describes a kind of operation. choose returns false if there is currently nothing for it to do.
type operation struct {
	weight   int
	disturbs bool
	choose   func(*soaking, *rand.Rand) (target string, args []string, ok bool)
	run      func(a act, target string, args []string)
}

// lane is a group of operations that run one at a time.
type lane struct {
	name  string
	pause time.Duration // mean time between operations
	kinds map[string]operation
}

var lanes = []lane{
	{"pods", 1500 * time.Millisecond, podOperations},
	{"hardware", 3 * time.Second, hardwareOperations},
	{"faults", 12 * time.Second, faultOperations},
	{"faults-too", 25 * time.Second, faultOperations},
	{"settings", 15 * time.Second, settingOperations},
}

// mixed returns the lane with a random mixture of its operations, for one round.
func (l lane) mixed(random *rand.Rand) lane {
	l.pause = time.Duration(float64(l.pause) * []float64{0.5, 1, 2}[random.IntN(3)])
	kinds := map[string]operation{}
	for _, name := range slices.Sorted(maps.Keys(l.kinds)) {
		o := l.kinds[name]
		if strings.HasPrefix(l.name, "faults") {
			o.weight *= []int{0, 1, 1, 3}[random.IntN(4)]
		}
		kinds[name] = o
	}
	l.kinds = kinds
	return l
}

// runSoak runs random operations for a while, or replays the operations in an earlier history. It reports whether it
// found violations.
func runSoak(ctx context.Context, c *cluster.Cluster, o options) (failed bool, err error) {
	var replay []soak.Line
	if o.replay != "" {
		if replay, err = soak.ReadFile(o.replay); err != nil {
			return false, err
		}
	}
	dir := filepath.Join(o.out, "soak")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	file, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return false, err
	}
	defer file.Close()
	s := &soaking{
		base: &scene{options: o, Cluster: c, ctx: ctx, resource: soakResources[0], users: "default"}, began: time.Now(), seed: o.seed,
		file: soak.NewWriter(file), checker: soak.NewChecker(soak.DefaultLimits), busy: map[string]bool{},
	}
	s.bench.cards = map[string]*card{}
	err = s.base.try(func() {
		a := act{s.base, s}
		defer a.tearDown()
		a.setUp()
		s.write(soak.Line{Run: &soak.Run{Seed: s.seed, Version: o.version, Began: time.Now().Format(time.RFC3339)}})
		defer s.observe()()
		defer a.serveOthers()()
		if replay != nil {
			s.replay(replay)
		} else {
			s.rounds(o.soak)
		}
		if len(s.found()) > 0 {
			a.writeState(filepath.Join(dir, "state"))
		}
	})
	return s.report(dir, err)
}

// rounds runs rounds until the time is up, or until a round ends with a violation.
func (s *soaking) rounds(lasts time.Duration) {
	for n := uint64(0); time.Since(s.began) < lasts && len(s.found()) == 0; n++ {
		fmt.Printf("== round %d, %v of %v\n", n+1, time.Since(s.began).Round(time.Second), lasts)
		ctx, cancel := context.WithTimeout(s.base.ctx, roundTime)
		var running sync.WaitGroup
		for i, l := range lanes {
			random := rand.New(rand.NewPCG(s.seed, n<<8|uint64(i)))
			running.Go(func() { s.runLane(ctx, l.mixed(random), random) })
		}
		running.Wait()
		cancel()
		s.base.check(context.Cause(s.base.ctx))
		s.quiet()
	}
}

// runLane runs random operations of a lane, one at a time, until ctx is done.
func (s *soaking) runLane(ctx context.Context, l lane, random *rand.Rand) {
	kinds, sum := slices.Sorted(maps.Keys(l.kinds)), 0
	for _, o := range l.kinds {
		sum += o.weight
	}
	for sum > 0 {
		pause := time.Duration(random.ExpFloat64() * float64(l.pause))
		select {
		case <-time.After(min(pause, 4*l.pause)):
		case <-ctx.Done():
			return
		}
		n := random.IntN(sum)
		for _, kind := range kinds {
			if n -= l.kinds[kind].weight; n < 0 {
				if target, args, ok := l.kinds[kind].choose(s, random); ok && len(s.found()) == 0 {
					s.operate(l, kind, target, args)
				}
				break
			}
		}
	}
}

// operate runs an operation, and writes a line when it starts and another when it ends. A failed operation isn't a
// violation: without an API server, for example, hardly any operations succeed.
func (s *soaking) operate(l lane, kind, target string, args []string) {
	o := l.kinds[kind]
	s.mu.Lock()
	s.count++
	op := soak.Op{N: s.count, Lane: l.name, Kind: kind, Target: target, Args: args, Disturbs: o.disturbs}
	s.mu.Unlock()
	s.write(soak.Line{Op: &op})
	ctx, cancel := context.WithTimeout(s.base.ctx, opLimit)
	defer cancel()
	own := *s.base
	own.ctx = ctx
	err := own.try(func() { o.run(act{&own, s}, target, args) })
	done := soak.Done{N: op.N}
	if err != nil {
		done.Error = err.Error()
	}
	s.write(soak.Line{Done: &done})
}

// replay runs a history's operations at their original times, each in its original lane. It also repeats the quiet
// times.
func (s *soaking) replay(history []soak.Line) {
	byLane := map[string][]soak.Line{}
	var quiets []float64
	for _, line := range history {
		if line.Op != nil {
			byLane[line.Op.Lane] = append(byLane[line.Op.Lane], line)
		}
		if line.Quiet != nil {
			quiets = append(quiets, line.Quiet.Since)
		}
	}
	began := time.Now()
	until := func(at float64) time.Duration { return time.Until(began.Add(time.Duration(at * float64(time.Second)))) }
	for _, quiet := range append(quiets, history[len(history)-1].At) {
		var running sync.WaitGroup
		for _, l := range lanes {
			due := 0 // number of operations before the quiet time
			for due < len(byLane[l.name]) && byLane[l.name][due].At < quiet {
				due++
			}
			lines := byLane[l.name][:due]
			byLane[l.name] = byLane[l.name][due:]
			running.Go(func() {
				for _, line := range lines {
					if len(s.found()) > 0 {
						return
					}
					time.Sleep(until(line.At))
					s.operate(l, line.Op.Kind, line.Op.Target, line.Op.Args)
				}
			})
		}
		running.Wait()
		if len(s.found()) > 0 {
			return
		}
		s.quiet()
	}
}

// at converts t to the form used in lines: seconds since the start of the run.
func (s *soaking) at(t time.Time) float64 { return t.Sub(s.began).Seconds() }

// write writes a line to the history and passes it to the checker.
func (s *soaking) write(line soak.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line.At = s.at(time.Now())
	s.lines = append(s.lines, line)
	err := s.file.Write(line)
	for _, wrong := range s.checker.Add(line) {
		fmt.Printf("== WRONG, %s: %s\n", wrong.Rule, wrong.Text)
		s.wrong = append(s.wrong, wrong)
		found := soak.Line{At: line.At, Wrong: &wrong}
		s.lines = append(s.lines, found)
		err = errors.Join(err, s.file.Write(found))
	}
	if err != nil {
		panic(err) // a soak without its history is worthless
	}
}

// found returns the violations found so far.
func (s *soaking) found() []soak.Wrong {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrong
}

// report prints the soak's result and writes the picture.
func (s *soaking) report(dir string, ended error) (failed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	picture, err := os.Create(filepath.Join(dir, "soak.html"))
	if err != nil {
		return false, err
	}
	err = errors.Join(soak.Picture(picture, s.lines), picture.Close())
	fmt.Println(s.checker.Summary())
	for _, wrong := range s.wrong {
		fmt.Printf("== %s: %s\n", wrong.Rule, wrong.Text)
		for _, text := range soak.Excerpt(s.lines, wrong) {
			fmt.Println("  ", text)
		}
	}
	fmt.Printf("== history and picture in %s; the seed was %d\n", dir, s.seed)
	if ended != nil {
		err = errors.Join(err, fmt.Errorf("the soak ended early: %w", ended))
	}
	return len(s.wrong) > 0, err
}
