package inventory_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/aws"
	"b-com.com/accelerator-device-plugin/inventory/vfio"
	"b-com.com/accelerator-device-plugin/inventory/xrt"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// TestScenarios plays the files in testdata/scenarios. Each file is a scenario in the language of scenarioCommands:
// changes to a simulated node, actions of the administrator and the kubelet, and the expected list and log. The
// inventory, the family and the files are real; time passes in a synctest bubble.
//
// A file starts with a description in comments (#), followed by one command per line. The daemon is running after
// `start`. Whenever a command edits the node, it is followed by a hint for its card. After the word `silently` there is
// no hint, so that only the ticks can find the change. The lines between `repeat N` and `end` are played N times.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text := must.Value(os.ReadFile(file))(t)
			steps, err := parseScenario(string(text))
			if err != nil {
				t.Fatalf("%s:%v", file, err)
			}
			bubble(t, func(t *testing.T) { playAll(t, file, steps) })
		})
	}
}

func playAll(t *testing.T, file string, steps []scenarioStep) {
	s := newScenario(t)
	for _, step := range steps {
		switch err := s.take(step); {
		case errors.As(err, new(mismatch)): // the rest of the scenario may explain it
			t.Errorf("%s:%d: %s: %v", file, step.line, step, err)
		case err != nil:
			t.Fatalf("%s:%d: %s: %v", file, step.line, step, err)
		}
	}
}

// mismatch is the error of a failed check. It says what was found and what was expected.
type mismatch string

func (m mismatch) Error() string { return string(m) }

// play parses one line and plays it.
func (s *scenario) play(line string) error {
	step, err := parseStep(strings.Fields(line))
	if err != nil {
		return err
	}
	return s.take(step)
}

// take plays one step, waits until all goroutines are blocked, and checks the list.
func (s *scenario) take(st scenarioStep) error {
	if err := s.allows(st); err != nil {
		return err
	}
	if st.kind == check {
		return st.do(s, st)
	}
	s.acted = s.logs.Len()
	err := st.do(s, st)
	if err == nil && s.rig != nil && st.kind == edit && !st.silent {
		s.rig.hint(st.card)
	}
	synctest.Wait()
	return cmp.Or(err, s.sound())
}

// allows returns an error if whatever a step acts on doesn't exist.
func (s *scenario) allows(st scenarioStep) error {
	ports, plugged := s.plugged[st.card]
	switch {
	case s.rig == nil && (st.kind == check || st.kind == daemonAction):
		return errors.New("the daemon has not been started yet")
	case s.rig != nil && st.kind == setup:
		return errors.New("the daemon has been started already")
	case st.kind == edit && !plugged && st.name != "plug":
		return fmt.Errorf("slot %s is empty", st.card)
	case st.kind == edit && plugged && st.port >= ports:
		return fmt.Errorf("slot %s has no port %d", st.card, st.port)
	}
	return nil
}

// sound returns an error if the list breaks a rule that holds in all scenarios.
func (s *scenario) sound() error {
	if s.rig == nil {
		return nil
	}
	snapshot, _ := s.rig.Latest()
	for _, d := range snapshot.Devices {
		if (d.Health == inventory.Healthy) != (len(d.Reasons) == 0) {
			return mismatch(fmt.Sprintf("%s: found %s with the reasons %v, want reasons only if not healthy", d.ID, d.Health, d.Reasons))
		}
	}
	return nil
}

// scenario is the state of a running scenario: a simulated node, the settings, the holders and the inventory.
type scenario struct {
	t       *testing.T
	node    *simnode.Node
	family  *programming
	kubelet *fakeKubelet
	cfg     inventory.Config
	policy  inventory.Policy

	mode    string         // "": devices don't have names
	ruled   atomic.Value   // names from the rules: map[string]string, by AFU
	plugged map[string]int // each card's number of ports

	core zapcore.Core
	logs *observer.ObservedLogs
	rig  *rig // nil before start
	stop func()

	acted int          // number of lines before the last command that isn't a check
	named map[int]bool // lines that a check has matched
}

// newScenario returns a scenario with the daemon's default times.
func newScenario(t *testing.T) *scenario {
	t.Helper()
	node := must.Value(simnode.New(t.TempDir()))(t)
	s := &scenario{
		t: t, node: node, family: newProgramming(t), kubelet: newFakeKubelet(),
		plugged: map[string]int{}, named: map[int]bool{},
	}
	s.ruled.Store(map[string]string{})
	s.core, s.logs = eventtest.Observed(t)
	s.cfg = withKubelet(s.kubelet)
	s.cfg.FlapLimit, s.cfg.FlapWindow = 5, 10*time.Minute
	t.Cleanup(func() { time.Sleep(s.kubelet.takes) }) // waits for a pending answer about holders
	return s
}

func (s *scenario) start(scenarioStep) error {
	s.policy.Families = []inventory.Family{s.family, vfio.Family{}, xrt.Family{}, aws.Family{}}
	s.cfg.Policy, s.cfg.Record = s.policy, s.kubelet.record()
	s.kubelet.set(func() { s.kubelet.awaits = s.cfg.HoldersUnknown })
	host := sysfs.Host{Sys: s.node.Sys, Dev: s.node.Dev, Simulated: true}
	var inv *inventory.Inventory
	inv, s.stop = runInventory(s.t, host, s.cfg, s.core)
	s.rig = &rig{Inventory: inv, t: s.t, logs: s.logs}
	return nil
}

func (s *scenario) restart(st scenarioStep) error {
	s.stop()
	s.rig = nil
	if len(st.rest) > 0 {
		if err := s.setMode(st.rest[0]); err != nil {
			return err
		}
	}
	return s.start(st)
}

// usePolicy replaces the running inventory's policy. Before start, it has no effect.
func (s *scenario) usePolicy() {
	if s.rig != nil {
		s.rig.Inventory.Use(s.policy)
	}
}
