// Package familytest provides tests that every family of cards must pass, and functions that change sysfs trees for
// these tests.
//
// The package doesn't have any state.
package familytest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/sysfstest"
)

// Ignore makes comparisons ignore units' incarnations, files, counters and bitstream IDs, and conditions' errors.
var Ignore = cmp.Options{
	cmpopts.IgnoreFields(inventory.Unit{}, "Incarnation", "Files", "Counters"),
	cmpopts.IgnoreFields(inventory.Condition{}, "Err"),
	cmp.FilterValues(func(a, b map[string]string) bool { return a[bitstreamID] != "" || b[bitstreamID] != "" },
		cmp.Comparer(func(a, b map[string]string) bool {
			a, b = maps.Clone(a), maps.Clone(b)
			delete(a, bitstreamID)
			delete(b, bitstreamID)
			return maps.Equal(a, b)
		})),
	cmpopts.EquateEmpty(),
}

const bitstreamID = inventory.AttributeBitstreamID

// Node unfolds boards from testdata into a new directory, using [board.UnfoldRecorded], and returns the host.
func Node(t testing.TB, boards ...string) sysfs.Host {
	t.Helper()
	root := t.TempDir()
	for _, name := range boards {
		must.Value(board.UnfoldRecorded(root, "../../testdata/sysfs/"+name+".txtar"))(t)
	}
	return sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
}

// Absent is the content that makes [Put] remove a file.
const Absent = "absent"

// Put writes a file, or removes it if content is Absent. path is relative to the parent of /sys. If it has the form
// PATH -> TARGET, Put creates a link.
func Put(t testing.TB, host sysfs.Host, path, content string) {
	t.Helper()
	path, target, link := strings.Cut(path, " -> ")
	path = filepath.Join(filepath.Dir(host.Sys), path)
	err := os.RemoveAll(path)
	if err == nil && content != Absent {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	switch {
	case err != nil:
	case link:
		err = os.Symlink(target, path)
	case content != Absent:
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		t.Fatalf("put: %v", err)
	}
}

// Change is a change to the hardware. Each step is either a path that is removed or, in the form PATH -> TARGET, a link
// that [Put] creates.
type Change struct {
	Name  string
	Steps []string
}

// make makes the change. Instead of deleting files, it moves them to the directory aside.
func (c Change) make(t testing.TB, host sysfs.Host, aside string) {
	for i, path := range c.Steps {
		if strings.Contains(path, " -> ") {
			Put(t, host, path, "")
		} else if err := os.Rename(filepath.Join(filepath.Dir(host.Sys), path), filepath.Join(aside, fmt.Sprint(i))); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// undo undoes the change.
func (c Change) undo(t testing.TB, host sysfs.Host, aside string) {
	for i, path := range slices.Backward(c.Steps) {
		if path, _, link := strings.Cut(path, " -> "); link {
			Put(t, host, path, Absent)
		} else if err := os.Rename(filepath.Join(aside, fmt.Sprint(i)), filepath.Join(filepath.Dir(host.Sys), path)); err != nil {
			t.Fatalf("undo %s: %v", c.Name, err)
		}
	}
}

// ChangeDuringReading reads the card once for each file access that a reading makes: in the nth reading, it makes the
// change right before the nth access. It checks that the change isn't missed even without an event: after each reading,
// either a check of the reading must find the change, or the reading must match the changed card. A reading may fail
// only if the changed card can't be read either. If each isn't nil, it is called with each reading.
func ChangeDuringReading(t *testing.T, host sysfs.Host, f inventory.Family, card string, c Change, each func(*testing.T, inventory.Reading)) {
	t.Helper()
	aside := t.TempDir()
	for nth := 0; ; nth++ {
		var got inventory.Reading
		var err error
		n := sysfstest.Before(t, nth, func() { c.make(t, host, aside) }, func() { got, err = f.Read(host, card) })
		want, wantErr := f.Read(host, card)
		switch {
		case err != nil && wantErr == nil:
			t.Errorf("%s before access %d of %d: error %v, want a reading", c.Name, nth, n, err)
		case err == nil && len(got.Units) > 0 && sysfs.Unchanged(got.Observed):
			if diff := cmp.Diff(want.Units, got.Units, Ignore); diff != "" || wantErr != nil {
				t.Errorf("%s before access %d of %d: a check finds no change, want error %v or (-want +got):\n%s", c.Name, nth, n, wantErr, diff)
			}
		}
		if err == nil && each != nil {
			each(t, got)
		}
		if nth >= n {
			return
		}
		c.undo(t, host, aside)
	}
}

// Shortage calls each of the family's methods once for each file access that the method makes, and makes that access
// fail for lack of descriptors or memory. The method must either report the shortage or return the same result as
// without it.
func Shortage(t *testing.T, host sysfs.Host, f inventory.Family, card string) {
	t.Helper()
	for name, do := range map[string]func() (any, error, error){
		"Read": func() (any, error, error) {
			r, err := f.Read(host, card)
			r.Observed = nil // without observations, the next check is a reading
			return r, r.Shortage(), err
		},
		"Outline": func() (any, error, error) {
			r, err := f.Outline(host, card)
			return r, r.Shortage(), err
		},
		"Cards": func() (any, error, error) {
			cards, err := f.Cards(host)
			return cards, nil, err
		},
	} {
		result := func(nth int) (text string, accesses int) {
			var r any
			var short, err error
			accesses = sysfstest.Refuse(t, nth, func() { r, short, err = do() })
			if sysfs.IsShortage(err) && !sysfs.Gone(err) || short != nil {
				return "", accesses
			}
			return fmt.Sprintf("%+v %v", r, err), accesses
		}
		want, accesses := result(-1)
		if want == "" || accesses == 0 {
			t.Fatalf("%s of %s: %q after %d accesses", name, card, want, accesses)
		}
		met := 0
		for nth := range accesses {
			got, _ := result(nth)
			if got == "" {
				met++
			} else if got != want {
				t.Errorf("%s of %s, access %d refused:\n%s\nwant a shortage or\n%s", name, card, nth, got, want)
			}
		}
		if met == 0 {
			t.Errorf("%s of %s: no shortage in %d accesses", name, card, accesses)
		}
	}
}

// Rows checks that each row in the family's health table has a severity, that no row occurs twice, and that all rows in
// want exist.
func Rows(t *testing.T, f inventory.Family, want ...string) {
	t.Helper()
	var names []string
	for _, r := range f.Rows() {
		if r.Health == inventory.Healthy || slices.Contains(names, r.Name) {
			t.Errorf("row %+v: no severity, or twice", r)
		}
		names = append(names, r.Name)
	}
	for _, row := range want {
		if !slices.Contains(names, row) {
			t.Errorf("rows %v, want %s among them", names, row)
		}
	}
}

// NoCard checks that the family doesn't read any of these cards, and doesn't list any cards on a host that doesn't have
// the driver.
func NoCard(t *testing.T, host sysfs.Host, f inventory.Family, cards ...string) {
	t.Helper()
	for _, card := range cards {
		for _, read := range []func(sysfs.Host, string) (inventory.Reading, error){f.Read, f.Outline} {
			if r, err := read(host, card); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("card %.20q: %+v, %v; want fs.ErrNotExist", card, r, err)
			}
		}
	}
	if found, err := f.Cards(sysfs.Host{Sys: t.TempDir()}); len(found) > 0 || err != nil {
		t.Errorf("without the driver: cards %v, error %v", found, err)
	}
}

// Readings maps cards' addresses to their units. A card without units is mapped to nil.
type Readings map[string][]inventory.Unit

// ReadAll returns the units of all of a host's cards, once as Read returns them and once as Outline returns them. It
// leaves out cards that are gone.
func ReadAll(t testing.TB, host sysfs.Host, f inventory.Family) (read, outlined Readings) {
	t.Helper()
	cards := must.Value(f.Cards(host))(t)
	read, outlined = Readings{}, Readings{}
	for _, card := range cards {
		r, err := f.Read(host, card)
		o, oerr := f.Outline(host, card)
		if errors.Is(err, fs.ErrNotExist) && errors.Is(oerr, fs.ErrNotExist) {
			continue
		}
		if err != nil || oerr != nil {
			t.Fatalf("%s: %v, %v", card, err, oerr)
		}
		if diff := cmp.Diff(r.Related, o.Related); diff != "" {
			t.Errorf("%s: related addresses of outline (-read +outline):\n%s", card, diff)
		}
		read[card], outlined[card] = r.Units, o.Units
	}
	return read, outlined
}

// ReadOne reads a card. The test fails unless the card has exactly one unit, and the unit has no conditions.
func ReadOne(t testing.TB, host sysfs.Host, f inventory.Family, card string) inventory.Reading {
	t.Helper()
	r, err := f.Read(host, card)
	if err != nil || len(r.Units) != 1 || len(r.Units[0].Conditions) > 0 {
		t.Fatalf("%+v, %v; want one unit without conditions", r, err)
	}
	return r
}

// Observed makes each of these changes in turn, and checks that the change is found when an earlier reading of the card
// is checked. A change is either a path that is moved away or, in the form PATH -> TARGET, a link that is created.
// Paths are relative to the parent of /sys.
func Observed(t *testing.T, host sysfs.Host, f inventory.Family, card string, paths ...string) {
	t.Helper()
	seen := ReadOne(t, host, f, card).Observed
	aside := t.TempDir()
	for _, path := range paths {
		if !sysfs.Unchanged(seen) {
			t.Fatalf("before %s: changed, want unchanged", path)
		}
		c := Change{Name: path, Steps: []string{path}}
		c.make(t, host, aside)
		if sysfs.Unchanged(seen) {
			t.Errorf("%s: unchanged, want changed", path)
		}
		c.undo(t, host, aside)
	}
}

// Silence replaces files with FIFOs, so that opening them blocks until there is a writer.
func Silence(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		must.Succeed(t, os.Remove(path), syscall.Mkfifo(path, 0o600))
	}
}

// Below returns the paths of the regular files below a directory, in two parts: those whose relative names are in
// names, and all others.
func Below(t *testing.T, dir string, names ...string) (in, others []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if name, _ := filepath.Rel(dir, path); slices.Contains(names, name) {
			in = append(in, path)
		} else {
			others = append(others, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return in, others
}

// Returns checks that do returns without an error even though some files have been silenced (see [Silence]).
func Returns(t *testing.T, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a file")
	}
}

// Judged returns the names of a unit's health files that exist, and then the names and values of its counters.
func Judged(u inventory.Unit) (names []string) {
	for _, f := range u.Files {
		if !f.Absent {
			names = append(names, f.Name)
		}
	}
	for _, c := range u.Counters {
		names = append(names, fmt.Sprintf("%s %d", c.Name, c.Value))
	}
	return names
}
