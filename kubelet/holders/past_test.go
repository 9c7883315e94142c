package holders_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// runs starts a daemon that watches the checkpoint, and returns a function that ends it.
func (r *rig) runs(t *testing.T) (s *holders.Source, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var task sync.WaitGroup
	s = holders.New(r.cfg)
	task.Go(func() { s.Watch(ctx, zap.NewNop(), func() {}) })
	end = func() { cancel(); task.Wait() }
	t.Cleanup(end)
	return s, end
}

// stored waits until the state directory has entries for exactly these pods.
func (r *rig) stored(t *testing.T, uids string) {
	t.Helper()
	patient.Await(t, "stored entries", func() error {
		text, err := os.ReadFile(filepath.Join(r.cfg.StateDir, "allocated.json"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, uid := range []string{"u1", "u2"} {
			if strings.Contains(string(text), `"`+uid+`"`) != strings.Contains(uids, uid) {
				return errors.New("found " + string(text))
			}
		}
		return nil
	})
}

// A pod is force-deleted, and the kubelet removes its entry before the daemon starts that is asked for the pod's device:
// during an upgrade, or while no daemon is running.
func TestForceDeletedBeforeStart(t *testing.T) {
	for _, during := range []string{"an upgrade", "a restart", "two restarts", "a change of the API", "the loss of the checkpoint"} {
		t.Run(during, func(t *testing.T) {
			r := newRig(t)
			r.cfg.StateDir, r.cfg.Refresh = t.TempDir(), func() bool { return false }
			pids := r.pids(t, "u1")
			pids("2")
			old, end := r.runs(t)
			if during == "a restart" {
				old.Ask(t.Context())
			}
			r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
			r.stored(t, "u1")
			if during != "an upgrade" {
				end()
			}
			r.write(t, fileOf(t, "u2", port, "5e:00.0", "m"))
			if during == "two restarts" {
				_, end := r.runs(t)
				r.stored(t, "u1 u2")
				end()
			}
			r.cfg.DRA = during == "a change of the API"
			if during == "the loss of the checkpoint" {
				must.Succeed(t, os.Remove(r.path))
			}
			s := holders.New(r.cfg)
			compare.Values(t, "ending before a query", []string{"u1"}, s.Ending(port, []string{"3b:00.0"}))
			record, err := s.Record(t.Context())
			must.Succeed(t, err)
			compare.Equal(t, "recorded holdings", 1, len(record["3b:00.0"]))
			for range 2 {
				compare.Equal(t, "holdings", 1, len(s.Ask(t.Context()).Of["3b:00.0"]))
				compare.Values(t, "ending", []string{"u1"}, s.Ending(port, []string{"3b:00.0"}))
			}
			pids("0")
			s.Ask(t.Context())
			compare.Equal(t, "holdings after its end", 0, len(s.Ask(t.Context()).Of["3b:00.0"]))
			end()
			r.write(t, fileOf(t, "u2", port, "5e:00.0", "m"))
			r.runs(t)
			r.stored(t, "u2")
			r.write(t, `{"Data":{}}`)
			r.stored(t, "")
			compare.Equal(t, "ending at last", 0, len(holders.New(r.cfg).Ending(port, []string{"3b:00.0", "5e:00.0"})))
		})
	}
}

// Entries of other plugins aren't stored, and a file with garbage is ignored and replaced.
func TestStoredEntries(t *testing.T) {
	r := newRig(t)
	r.cfg.StateDir = t.TempDir()
	path := filepath.Join(r.cfg.StateDir, "allocated.json")
	must.Succeed(t, os.WriteFile(path, []byte("{"), 0o600))
	r.write(t, fileOf(t, "u1", "example.com/gpu", "gpu-0", "/dev/gpu0"))
	r.runs(t)
	patient.Await(t, "the file's removal", func() error {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return errors.New("not removed yet")
		}
		return nil
	})
	r.write(t, fileOf(t, "u2", port, "3b:00.0", "n"))
	r.stored(t, "u2")
}

// A daemon that has read the state directory before the pod was deleted learns of the pod from the other daemon, and a
// third one from either of them.
func TestStoredByAnotherDaemon(t *testing.T) {
	r := newRig(t)
	r.cfg.StateDir = t.TempDir()
	r.pids(t, "u1")("2")
	r.pids(t, "u2")("2")
	r.write(t, `{"Data":{}}`)
	next := holders.New(r.cfg)
	_, _ = next.Record(t.Context())
	r.runs(t)
	r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
	r.stored(t, "u1")
	r.write(t, fileOf(t, "u2", port, "5e:00.0", "m"))
	r.stored(t, "u1 u2")
	var task sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer task.Wait()
	defer cancel()
	task.Go(func() { next.Watch(ctx, zap.NewNop(), func() {}) })
	patient.Await(t, "u1", func() error {
		if !slices.Equal(next.Ending(port, []string{"3b:00.0"}), []string{"u1"}) {
			return errors.New("not known yet")
		}
		return nil
	})
	compare.Equal(t, "holdings", 1, len(next.Ask(t.Context()).Of["3b:00.0"]))
	compare.Values(t, "ending", []string{"u1"}, holders.New(r.cfg).Ending(port, []string{"3b:00.0"}))
}

// A daemon stores the newest version of the checkpoint when it ends. The next one takes over which device a static pod
// has, because its UID stays the same.
func TestStoredAtEnd(t *testing.T) {
	r := newRig(t)
	r.cfg.StateDir = t.TempDir()
	r.pids(t, "u1")("2")
	_, end := r.runs(t)
	r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
	end()
	s := holders.New(r.cfg)
	r.write(t, `{"Data":{}}`)
	compare.Values(t, "ending", []string{"u1"}, s.Ending(port, []string{"3b:00.0"}))
	r.write(t, fileOf(t, "u1", port, "5e:00.0", "m"))
	compare.Equal(t, "pods with the former device", 0, len(s.Ending(port, []string{"3b:00.0"})))
	compare.Equal(t, "holdings", 0, len(s.Ask(t.Context()).Of["3b:00.0"]))
}

// Reading and allocating don't wait for a state directory that hangs, and the daemon ends.
func TestStoringHangs(t *testing.T) {
	r := newRig(t)
	r.cfg.StateDir = privatedirtest.Dir(t)
	r.write(t, `{"Data":{}}`)
	s, end := r.runs(t)
	release := privatedirtest.Hang(t, r.cfg.StateDir)
	defer release()
	r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
	patient.Await(t, "the entry", func() error {
		if !s.Sees("3b:00.0") {
			return errors.New("not seen yet")
		}
		return nil
	})
	s.Ask(t.Context())
	s.Ending(port, []string{"3b:00.0"})
	end()
}
