package keep_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/registry/keep"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var pinned = "registry.example.com/fpga/nlb@" + manifestOf(nlbFile).String()

// Each reference is pulled at the start. A tag is asked for at intervals with jitter, and a digest never again.
func TestIntervals(t *testing.T) {
	story(t, func(r *rig) {
		r.start()
		compare.Values(t, "store", map[string]string{nlbPath: string(nlbFile), vaddPath: string(vaddFile)}, r.store())
		compare.Values(t, "results", map[string]string{pinned: "installed, present", vadd: "installed, present"}, results(r.keeper))
		compare.NoError(t, "Ready", r.keeper.Ready(t.Context()))
		r.pass(20 * time.Hour)
		r.stop()
		compare.Equal(t, "requests for the digest", 1, len(r.asked[pinned]))
		times, different := r.asked[vadd], map[time.Duration]bool{}
		for i, at := range times[1:] {
			wait := at - times[i]
			if different[wait] = true; wait < 7*time.Minute+30*time.Second || wait > 12*time.Minute+30*time.Second {
				t.Errorf("wait %d: %s, want 10 minutes and at most a quarter more or less", i, wait)
			}
		}
		if len(times) < 100 || len(different) < 50 {
			t.Errorf("found %d requests with %d different waits, want one every 10 minutes on average, at random", len(times), len(different))
		}
		compare.Values(t, "pulls", []string{pinned, strings.Replace(vadd, ":1.0", "@"+manifestOf(vaddFile).String(), 1)}, slices.Sorted(slices.Values(r.pulled)))
		compare.Values(t, "log", []string{line(logevent.BitstreamInstalled, pinned, ""), line(logevent.BitstreamInstalled, vadd, "")}, r.events())
	}, pinned, vadd)
}

// References that fail are tried again, after waits that grow up to the interval. They do not delay other references,
// even if the registry never answers.
func TestFailures(t *testing.T) {
	story(t, func(r *rig) {
		const hangs, fails = "slow.example.com/a:1", "gone.example.com/b:1"
		r.list(hangs, fails, nlb)
		r.fail[hangs], r.fail[fails] = errHang, errors.New("connection refused")
		r.start()
		compare.Error(t, "Ready", hangs+": found no attempt yet", r.keeper.Ready(t.Context()))
		compare.Equal(t, "result", "installed, present", results(r.keeper)[nlb])
		r.pass(time.Hour - time.Second)
		waits := []time.Duration{}
		for i := range r.asked[fails][1:] {
			waits = append(waits, r.asked[fails][i+1]-r.asked[fails][i])
		}
		for i, bound := 0, 15*time.Second; i < len(waits); i, bound = i+1, min(2*bound, 10*time.Minute) {
			if waits[i] < bound/2 || waits[i] > bound {
				t.Errorf("wait %d: %s, want %s to %s", i, waits[i], bound/2, bound)
			}
		}
		if len(waits) < 7 {
			t.Errorf("found %d more attempts, want more", len(waits))
		}
		if n := len(r.asked[nlb]); n < 5 {
			t.Errorf("found %d requests for the other reference, want one every 10 minutes", n)
		}
		r.pass(time.Second)
		compare.Values(t, "results", map[string]string{
			hangs: "failed" + hangs + ": not done after 1h0m0s", fails: "failed" + fails + ": connection refused", nlb: "unchanged, present",
		}, results(r.keeper))
		compare.NoError(t, "Ready", r.keeper.Ready(t.Context()))
		compare.Values(t, "log", []string{ // each error once
			line(logevent.BitstreamFailed, fails, fails+": connection refused"), line(logevent.BitstreamFailed, hangs, hangs+": not done after 1h0m0s"),
			line(logevent.BitstreamInstalled, nlb, ""),
		}, r.events())
		r.set(func() { delete(r.fail, fails); r.names[fails], r.changed = vaddFile, nil })
		r.pass(10 * time.Minute)
		compare.Contains(t, "result", ", present", results(r.keeper)[fails])
		compare.Equal(t, "state of the change", keep.Installed, r.changed[len(r.changed)-1].Result)
	})
}

// A tag that moves to other content replaces the file atomically. A program that has opened the old file, as the hook
// does before it programs a card, continues with the old content. A tag that moves to another AFU leaves the old file.
func TestMovedTag(t *testing.T) {
	story(t, func(r *rig) {
		r.start()
		old := must.Value(r.cfg.Store.Lookup(bits.Interface, bits.AFU))(t)
		defer old.Close()
		mapped := must.Value(old.Map(t.Context(), r.cfg.Store))(t)
		defer mapped.Close()
		other := gbs(bits.AFU, "other")
		r.set(func() { r.names[nlb] = other })
		r.pass(13 * time.Minute)
		compare.Values(t, "store", map[string]string{nlbPath: string(other)}, r.store())
		compare.Equal(t, "mapping of the old file", "nlb", string(mapped.Data))
		r.set(func() { r.names[nlb] = vaddFile })
		r.pass(13 * time.Minute)
		compare.Values(t, "store", map[string]string{nlbPath: string(other), vaddPath: string(vaddFile)}, r.store())
		r.pass(100 * time.Hour)
		compare.Values(t, "store without collecting", map[string]string{nlbPath: string(other), vaddPath: string(vaddFile)}, r.store())
	}, nlb)
}

// A file that somebody else has installed is never replaced. If it has the same content, it counts as present.
func TestForeignFile(t *testing.T) {
	story(t, func(r *rig) {
		byHand := gbs(bits.AFU, "by hand")
		r.install(byHand)
		r.install(vaddFile)
		r.start()
		path := filepath.Join(string(r.cfg.Store), nlbPath)
		want := path + ": found a file that keep has not installed, want none or the file with digest"
		compare.Contains(t, "result", want, results(r.keeper)[nlb])
		compare.Equal(t, "result", "unchanged, present", results(r.keeper)[vadd])
		r.set(func() { r.names[vadd] = gbs(bits.OtherAFU, "moved") })
		r.pass(13 * time.Minute)
		compare.Contains(t, "result of the moved tag", vaddPath+": found a file that keep has not installed", results(r.keeper)[vadd])
		compare.Values(t, "store", map[string]string{nlbPath: string(byHand), vaddPath: string(vaddFile)}, r.store())
		must.Succeed(t, os.Remove(path))
		r.pass(11 * time.Minute)
		compare.Contains(t, "result when it is removed", ", present", results(r.keeper)[nlb])
		compare.Equal(t, "file", string(nlbFile), r.store()[nlbPath])
		r.install(byHand) // over a file of keep
		r.pass(13 * time.Minute)
		compare.Contains(t, "result when it is replaced by hand", want, results(r.keeper)[nlb])
		compare.Equal(t, "file", string(byHand), r.store()[nlbPath])
	}, nlb, vadd)
}

// What a registry only announces does not entitle keep to replace a file. This applies to a file that somebody installs
// later, and to a file that replaces one of keep's files during a pull.
func TestForeignFileMeanwhile(t *testing.T) {
	story(t, func(r *rig) {
		lost := func(context.Context, registry.Reference) error { return errors.New("lost") }
		r.during = lost
		r.start()
		r.install(nlbFile)
		moved := gbs(bits.AFU, "moved")
		r.set(func() { r.during, r.names[nlb] = nil, moved })
		r.pass(11 * time.Minute)
		const want = nlbPath + ": found a file that keep has not installed"
		compare.Contains(t, "result", want, results(r.keeper)[nlb])
		compare.Equal(t, "file", string(nlbFile), r.store()[nlbPath])

		must.Succeed(t, os.Remove(filepath.Join(string(r.cfg.Store), nlbPath)))
		r.pass(11 * time.Minute)
		compare.Equal(t, "file of keep", string(moved), r.store()[nlbPath])
		byHand := gbs(bits.AFU, "by hand")
		r.set(func() {
			r.names[nlb] = gbs(bits.AFU, "again")
			r.during = func(context.Context, registry.Reference) error { r.install(byHand); return nil }
		})
		r.pass(13 * time.Minute)
		compare.Contains(t, "result of the pull", want, results(r.keeper)[nlb])
		compare.Equal(t, "file after the pull", string(byHand), r.store()[nlbPath])
	}, nlb)
}

// If two references name the same file with different contents, they do not replace each other's file.
func TestConflict(t *testing.T) {
	story(t, func(r *rig) {
		const again = "other.example.com/nlb:2.0"
		r.names[again] = gbs(bits.AFU, "other")
		r.start()
		r.relist(nlb, again)
		r.pass(time.Hour)
		compare.Values(t, "results", map[string]string{nlb: "unchanged, present",
			again: "failed" + again + ": names the same bitstream " + nlbPath + " as " + nlb + ", with another content: keep one of them in the list"}, results(r.keeper))
		compare.Equal(t, "file", string(nlbFile), r.store()[nlbPath])
		r.relist(again)
		r.pass(11 * time.Minute)
		compare.Contains(t, "result", ", present", results(r.keeper)[again])
		compare.Equal(t, "file", string(r.names[again]), r.store()[nlbPath])
	}, nlb)
}

// A pull that reports something every second is logged every ten seconds.
func TestProgress(t *testing.T) {
	story(t, func(r *rig) {
		r.during = func(ctx context.Context, _ registry.Reference) error {
			for range 95 {
				backoff.Wait(ctx, time.Second)
				r.say("unexpected EOF: trying again in 1 s")
			}
			return ctx.Err()
		}
		r.once()
		lines := r.logs.FilterField(logevent.BitstreamProgress).Len()
		if lines < 8 || lines > 9 {
			t.Errorf("lines: found %d, want one every 10 or 11 s", lines)
		}
	}, nlb)
}

// A registry that announces another registry's bitstream, and never sends it, does not delay the other registry.
func TestAnnouncedOnly(t *testing.T) {
	story(t, func(r *rig) {
		const again = "other.example.com/nlb:2.0"
		r.names[again] = gbs(bits.AFU, "other")
		r.during = func(ctx context.Context, ref registry.Reference) error {
			if ref.Registry == "registry.example.com" {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		r.start()
		r.relist(nlb, again)
		compare.Equal(t, "result", "installed, present", results(r.keeper)[again])
		compare.Equal(t, "file", string(r.names[again]), r.store()[nlbPath])
		r.during = nil
		r.pass(2 * time.Hour)
		compare.Contains(t, "result of the first one", "names the same bitstream", results(r.keeper)[nlb])
		compare.Equal(t, "file", string(r.names[again]), r.store()[nlbPath])
	}, nlb)
}

// A change of the list takes effect at once. An invalid list changes nothing.
func TestList(t *testing.T) {
	story(t, func(r *rig) {
		r.start()
		r.events()
		r.relist(nlb, vadd)
		compare.Values(t, "results", map[string]string{nlb: "installed, present", vadd: "installed, present"}, results(r.keeper))
		r.relist("nlb")
		r.relist("nlb")
		must.Succeed(t, os.Remove(r.cfg.List))
		r.poke <- struct{}{}
		r.pass(time.Hour)
		compare.Equal(t, "references", 2, len(results(r.keeper)))
		r.relist(vadd)
		r.set(func() { r.asked = map[string][]time.Duration{} })
		r.pass(time.Hour)
		compare.Equal(t, "requests for the removed reference", 0, len(r.asked[nlb]))
		compare.Equal(t, "files", 2, len(r.store()))
		var got []string
		for _, e := range r.events() {
			if strings.HasPrefix(e, "keep.") {
				got = append(got, e[:min(len(e), 24)])
			}
		}
		compare.Values(t, "log", []string{"keep.listed <nil> <nil>", "keep.listed <nil> <nil>", "keep.refused <nil> " + r.dir[:5], "keep.refused <nil> stat "[:24]}, got)
	}, nlb)
}

// After a restart, the record shows which files exist and whose they are, even while the registry cannot be reached.
func TestRestart(t *testing.T) {
	story(t, func(r *rig) {
		r.start()
		r.fail[nlb], r.fail[pinned] = errors.New("away"), errors.New("away")
		r.asked = map[string][]time.Duration{}
		r.start()
		compare.Values(t, "results", map[string]string{nlb: "failed" + nlb + ": away, present", pinned: "unchanged, present"}, results(r.keeper))
		compare.Equal(t, "requests for the digest", 0, len(r.asked[pinned]))
		r.stop()

		// A process ended after the installation but before it was recorded.
		r.list(nlb)
		moved := gbs(bits.AFU, "moved")
		r.fail, r.names[nlb], r.after = nil, moved, errors.New("killed")
		compare.Values(t, "results", map[string]string{nlb: "failed" + nlb + ": killed"}, r.once())
		compare.Equal(t, "file", string(moved), r.store()[nlbPath])
		r.names[nlb], r.after = gbs(bits.AFU, "again"), nil
		compare.Values(t, "results", map[string]string{nlb: "installed, present"}, r.once())

		// A file in the store has changed.
		must.Succeed(t, os.Remove(filepath.Join(string(r.cfg.Store), nlbPath)))
		compare.Values(t, "results", map[string]string{nlb: "installed, present"}, r.once())
	}, nlb, pinned)
}

// If the store or the record cannot be trusted, each reference fails with the reason, and nothing is changed.
func TestDistrust(t *testing.T) {
	story(t, func(r *rig) {
		record := filepath.Join(string(r.cfg.Store), ".keep.json")
		must.Succeed(t, os.MkdirAll(string(r.cfg.Store), 0o755))
		for text, want := range map[string]string{
			"{": "unexpected EOF", `{"version": 2}`: "found version 2, want 1", `{"version": 1, "x": 1}`: `unknown field "x"`,
			`{"version": 1, "files": null}`: "found no references or no files", strings.Repeat(" ", 2<<20): "want at most 1048576",
		} {
			must.Succeed(t, os.WriteFile(record, []byte(text), 0o600))
			compare.Contains(t, "result with "+text[:min(len(text), 20)], want, r.once()[nlb])
			compare.Equal(t, "record", text, string(must.Value(os.ReadFile(record))(t)))
		}
		must.Succeed(t, os.Chmod(record, 0o666), os.Chmod(string(r.cfg.Store), 0o755))
		compare.Contains(t, "result with a record for all", "want it not writable by group and others", r.once()[nlb])
		must.Succeed(t, os.Remove(record), os.Chmod(string(r.cfg.Store), 0o777))
		compare.Contains(t, "result with a store for all", "want it not writable by group and others", r.once()[nlb])
		must.Succeed(t, os.Chmod(string(r.cfg.Store), 0o755))
		compare.Empty(t, "store", r.store())

		r.start()
		compare.Equal(t, "result", "installed, present", results(r.keeper)[nlb])
		compare.Contains(t, "result of a second process", ".keep.lock: another process keeps a list in this store", r.once()[nlb])
	}, nlb)
}

// Once tries each reference once. A failed or hanging attempt is not an error.
func TestOnce(t *testing.T) {
	story(t, func(r *rig) {
		r.fail[vadd] = errHang
		r.cfg.Timeout = time.Minute
		began := time.Now()
		compare.Values(t, "results", map[string]string{nlb: "installed, present", vadd: "failed" + vadd + ": not done after 1m0s"}, r.once())
		compare.Equal(t, "time", time.Minute, time.Since(began))
	}, nlb, vadd)
}

// A bitstream is pulled only if a part of the file system stays free.
func TestSpace(t *testing.T) {
	story(t, func(r *rig) {
		free := int64(10<<20 + 1)
		r.cfg.Space = func(string) (int64, int64, error) { return free, 100 << 20, nil }
		compare.Contains(t, "result", "found 10 MiB of free space, want 10 MiB: 10 % of the file system, and twice each bitstream that is pulled", r.once()[nlb])
		compare.Empty(t, "pulls", r.pulled)
		free += 2 * int64(len(nlbFile))
		compare.Equal(t, "result", "installed, present", r.once()[nlb])
		free = 0
		compare.Equal(t, "result when it is there", "unchanged, present", r.once()[nlb])
	}, nlb)
	// Each of the two bitstreams fits, but not both at the same time.
	story(t, func(r *rig) {
		r.cfg.MinFree = 0
		r.cfg.Space = func(string) (int64, int64, error) { return 3 * int64(len(vaddFile)), 100 << 20, nil }
		r.during = func(ctx context.Context, _ registry.Reference) error {
			backoff.Wait(ctx, time.Minute)
			return ctx.Err()
		}
		r.start()
		compare.Equal(t, "pulls at the same time", 1, len(r.pulled))
		r.pass(4 * time.Minute)
		compare.Equal(t, "files", 2, len(r.store()))
	}, nlb, vadd)
	free, total, err := keep.Space(t.TempDir())
	if err != nil || free <= 0 || free > total {
		t.Errorf("found %d bytes of %d, %v, want some", free, total, err)
	}
	compare.Error(t, "no directory", "no such file", func() error { _, _, err := keep.Space("/none"); return err }())
}
