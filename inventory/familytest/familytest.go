// Package familytest has the tests that every family of cards must pass, and changes sysfs trees for them.
//
// It owns no state.
package familytest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/internal/sysfs/sysfstest"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Ignore leaves out the fields of units that differ between runs, and the findings about files.
var Ignore = cmp.Options{
	cmpopts.IgnoreFields(inventory.Unit{}, "Incarnation", "Files", "Counters"),
	cmpopts.IgnoreFields(inventory.Condition{}, "Err"),
	cmpopts.EquateEmpty(),
}

// Absent is the content of a file that [Put] removes.
const Absent = "absent"

// Put writes a file, or removes it if the content is Absent. path is below the parent of /sys. A path that ends in
// -> TARGET makes a link.
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

// Change is a change of the hardware. Its steps are made in this order: a path is removed, and a path that ends in
// -> TARGET is made, as by [Put].
type Change struct {
	Name  string
	Steps []string
}

// make makes the change. What it removes is moved to the directory aside.
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

// ChangeDuringReading makes the change before each access to a file of a reading. A check of the reading must then find
// the change, or the reading must be that of the changed card. So no change is missed although no event announces it. A
// reading may fail only if the changed card cannot be read either. each is called for each reading; it may be nil.
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

// Shortage makes each access to a file fail because of a shortage, one after the other. Each method of the family must
// then report the shortage, or return the same as without it.
func Shortage(t *testing.T, host sysfs.Host, f inventory.Family, card string) {
	t.Helper()
	for name, do := range map[string]func() (any, error, error){
		"Read": func() (any, error, error) {
			r, err := f.Read(host, card)
			r.Observed = nil // without an observation the next check is a reading
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
