package keep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/registry/transfer"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Only files that keep has installed are removed. They are removed only if for the configured time no reference has
// named them and no program has read them, and if no card has their AFU.
func TestCollect(t *testing.T) {
	const day = 24 * time.Hour
	path := func(r *rig) string { return filepath.Join(string(r.cfg.Store), vaddPath) }
	both, one := []string{nlbPath, vaddPath}, []string{nlbPath}
	for _, test := range []struct {
		name  string
		do    func(r *rig) // before keep starts; the reference vadd is removed from the list after that
		after func(r *rig) // then
		pass  time.Duration
		want  []string
		log   string
	}{
		{name: "off", pass: 10 * day, want: both},
		{name: "age", do: func(r *rig) { r.cfg.Collect.Age = 3 * day }, pass: 3*day - 2*time.Hour, want: both},
		{name: "age is over", do: func(r *rig) { r.cfg.Collect.Age = 3 * day }, pass: 3*day + 2*time.Hour, want: one, log: "bitstream.removed <nil> <nil>"},
		{name: "size fits", do: func(r *rig) { r.cfg.Collect.MaxSize = 10 << 20 }, pass: 10 * day, want: both},
		{name: "size", do: func(r *rig) { r.cfg.Collect.MaxSize = 1 }, pass: day - 2*time.Hour, want: both},
		{name: "size is over", do: func(r *rig) { r.cfg.Collect.MaxSize = 1 }, pass: day + 2*time.Hour, want: one, log: "bitstream.removed <nil> <nil>"},
		{name: "a card has the AFU", do: func(r *rig) {
			r.cfg.Collect.Age = day
			r.cfg.Collect.Loaded = func() ([]string, error) { return []string{bits.AFU, bits.OtherAFU}, nil }
		}, pass: 10 * day, want: both},
		{name: "the cards cannot be read", do: func(r *rig) {
			r.cfg.Collect.Age = day
			r.cfg.Collect.Loaded = func() ([]string, error) { return nil, errors.New("no sysfs") }
		}, pass: day + 2*time.Hour, want: both, log: "bitstream.retained <nil> no sysfs"},
		{name: "read by a program", do: func(r *rig) { r.cfg.Collect.Age = 3 * day }, after: func(r *rig) {
			r.pass(2 * day)
			must.Succeed(t, os.Chtimes(path(r), time.Now(), time.Time{}))
		}, pass: 2 * day, want: both},
		{name: "named again", do: func(r *rig) { r.cfg.Collect.Age = 3 * day }, after: func(r *rig) {
			r.pass(2 * day)
			r.relist(nlb, vadd)
		}, pass: 10 * day, want: both},
		{name: "named again while the registry is away", do: func(r *rig) { r.cfg.Collect.Age = 3 * day }, after: func(r *rig) {
			r.pass(2 * day)
			r.set(func() { r.fail[vadd] = errors.New("away") })
			r.relist(nlb, vadd)
		}, pass: 10 * day, want: both},
		{name: "replaced by hand", do: func(r *rig) { r.cfg.Collect.Age = 3 * day }, after: func(r *rig) {
			r.install(gbs(bits.OtherAFU, "by hand"))
			must.Succeed(t, os.Chtimes(path(r), start, time.Time{}))
		}, pass: 10 * day, want: both},
		{name: "installed by hand before", do: func(r *rig) {
			r.cfg.Collect.Age = 3 * day
			r.install(vaddFile)
			must.Succeed(t, os.Chtimes(path(r), start, time.Time{}))
		}, pass: 10 * day, want: both},
		{name: "the store may be written by others", do: func(r *rig) { r.cfg.Collect.Age = 3 * day }, after: func(r *rig) {
			r.pass(2*day + 23*time.Hour)
			must.Succeed(t, os.Chmod(filepath.Dir(path(r)), 0o777))
		}, pass: 2 * time.Hour, want: both, log: "bitstream.retained <nil> "},
	} {
		t.Run(test.name, func(t *testing.T) {
			story(t, func(r *rig) {
				if test.do != nil {
					test.do(r)
				}
				r.cfg.Interval = 1000 * time.Hour
				r.start()
				must.Succeed(t, os.Chtimes(path(r), start, time.Time{})) // the bubble's clock, not the file system's
				r.pass(time.Hour + time.Minute)
				r.relist(nlb)
				r.events()
				if test.after != nil {
					test.after(r)
				}
				r.pass(test.pass)
				compare.Values(t, "files", test.want, slices.Sorted(maps.Keys(r.store())))
				log := ""
				for _, line := range r.events() {
					if strings.HasPrefix(line, logevent.BitstreamRemoved.String) || strings.HasPrefix(line, logevent.BitstreamRetained.String) {
						log = line
					}
				}
				if test.log == "" || log == "" {
					compare.Equal(t, "log", test.log, log)
				}
				compare.Contains(t, "log", test.log, log)
			}, nlb, vadd)
		})
	}
}

// What a pull has left stays only as long as this pull may continue. So a registry that moves a tag each time does not
// fill the disk, even if another reference never succeeds.
func TestParts(t *testing.T) {
	story(t, func(r *rig) {
		r.during = func(context.Context, registry.Reference) error { return errors.New("lost") }
		r.fail[vadd] = errors.New("away")
		r.start()
		must.Succeed(t, os.WriteFile(filepath.Join(string(r.cfg.Store), ".pull-0123.gbs"), nil, 0o600)) // of an earlier process
		_, d, _, err := r.open(must.Value(transfer.ParseReference(nlb))(t))
		must.Succeed(t, err)
		part := filepath.Join(string(r.cfg.Store), transfer.PartName(d))
		r.pass(10 * time.Hour)
		must.Value(os.Stat(part))(t)
		compare.Equal(t, "parts", 1, r.parts())
		for i := range 5 {
			r.set(func() { r.names[nlb] = gbs(bits.AFU, fmt.Sprint("moved ", i)) })
			r.pass(20 * time.Minute)
		}
		r.pass(time.Hour)
		compare.Equal(t, "parts after five contents", 1, r.parts())
		r.set(func() { r.during = nil })
		r.pass(20 * time.Minute)
		compare.Equal(t, "parts at the end", 0, r.parts())
	}, nlb, vadd)
}

// Even if the record cannot be written because the disk is full, files are removed.
func TestCollectFullDisk(t *testing.T) {
	story(t, func(r *rig) {
		r.cfg.Collect.Age = 24 * time.Hour
		r.start()
		must.Succeed(t, os.Chtimes(filepath.Join(string(r.cfg.Store), vaddPath), start, time.Time{}),
			os.MkdirAll(filepath.Join(string(r.cfg.Store), ".keep.json.new/x"), 0o755))
		r.relist(nlb)
		r.pass(30 * time.Hour)
		compare.Values(t, "store", map[string]string{nlbPath: string(nlbFile)}, r.store())
		compare.Contains(t, "log", ".keep.json.new", strings.Join(r.events(), ""))
	}, nlb, vadd)
}

// The record is bounded, even if the list has changed many times.
func TestManyReferences(t *testing.T) {
	story(t, func(r *rig) {
		r.once()
		path := filepath.Join(string(r.cfg.Store), ".keep.json")
		var record map[string]any
		must.Succeed(t, json.Unmarshal(must.Value(os.ReadFile(path))(t), &record))
		references := record["references"].(map[string]any)
		for i := range 600 {
			references[fmt.Sprint("registry.example.com/fpga/nlb:former-", i)] = references[nlb]
		}
		must.Succeed(t, os.WriteFile(path, must.Value(json.Marshal(record))(t), 0o600))
		r.fail[nlb] = errors.New("away")
		r.start()
		r.pass(2 * time.Hour)
		text := string(must.Value(os.ReadFile(path))(t))
		compare.Equal(t, "references in the record", 500, strings.Count(text, `"manifest"`))
		compare.Equal(t, "the listed one is there", true, strings.Contains(text, nlb))
	}, nlb)
}

// Files that were removed by hand do not count.
func TestRemovedByHand(t *testing.T) {
	story(t, func(r *rig) {
		r.start()
		r.relist(nlb)
		record := filepath.Join(string(r.cfg.Store), ".keep.json")
		r.pass(2 * time.Hour)
		compare.Contains(t, "record", bits.OtherAFU, string(must.Value(os.ReadFile(record))(t)))
		must.Succeed(t, os.Remove(filepath.Join(string(r.cfg.Store), vaddPath)))
		r.pass(2 * time.Hour)
		compare.Equal(t, "it is in the record", false, strings.Contains(string(must.Value(os.ReadFile(record))(t)), bits.OtherAFU))
	}, nlb, vadd)
}

// A file may be removed just when a card gets its AFU. The hook has opened the file before, so it can read it to the
// end.
func TestCollectOpenFile(t *testing.T) {
	story(t, func(r *rig) {
		r.cfg.Collect.Age = 24 * time.Hour
		r.start()
		path := filepath.Join(string(r.cfg.Store), vaddPath)
		must.Succeed(t, os.Chtimes(path, start, time.Time{}))
		b := must.Value(r.cfg.Store.Lookup(bits.Interface, bits.OtherAFU))(t)
		defer b.Close()
		must.Succeed(t, os.Chtimes(path, start, time.Time{}))
		r.relist(nlb)
		r.pass(30 * time.Hour)
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("%s: found it, want it removed", path)
		}
		mapped := must.Value(b.Map(t.Context(), r.cfg.Store))(t)
		defer mapped.Close()
		compare.Equal(t, "content", "vadd", string(mapped.Data))
	}, nlb, vadd)
}
