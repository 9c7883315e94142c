package port_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// rare lists the health files that a check doesn't compare. They are read on a hint and at each resync.
var rare = []string{"fme/compat_id", "fme/pr/interface_id", "pci/max_link_speed", "pci/max_link_width"}

// in returns the families with this kind of unit, by their boards' names.
func in(unit port.Kind) map[string]inventory.Family {
	return map[string]inventory.Family{"dfl": dfl.Family(unit), "opae": opae.Family(unit)}
}

// observed returns the observations for the rig's card.
func (r *rig) observed(t *testing.T) []sysfs.Observation {
	t.Helper()
	reading, err := r.family.Read(r.host, r.address)
	if err != nil || len(reading.Units) != 1 || len(reading.Units[0].Conditions) != 0 {
		t.Fatalf("reading %+v, error %v", reading, err)
	}
	return reading.Observed
}

// TestObserved changes each health file and then removes it. A check notices the change, except in the rare files.
func TestObserved(t *testing.T) {
	for _, unit := range []port.Kind{port.PerPort, port.PerFME, port.PerFMEWithNode} {
		for name, family := range in(unit) {
			r := newRig(t, name)
			r.family = family
			for _, driver := range []string{"driver", "fme/driver"} { // some boards don't have driver links
				if err := os.Symlink("none", r.path(driver)); err != nil && !errors.Is(err, fs.ErrExist) {
					t.Fatal(err)
				}
			}
			seen := r.observed(t)
			check := func(what string, want bool) {
				t.Helper()
				compare.Equal(t, fmt.Sprintf("unit %d, %s: %s: unchanged", unit, name, what), want, sysfs.Unchanged(seen))
			}
			check("untouched", true)
			files := []string{"id", "pci/numa_node", "slot/max_link_width"}
			for _, f := range judged(name) {
				files = append(files, f.Name)
			}
			alarms, err := filepath.Glob(r.path("fme/hwmon") + "/hwmon*/*_alarm")
			if err != nil || name == "dfl" && len(alarms) == 0 {
				t.Fatalf("alarms %v, error %v", alarms, err)
			}
			for _, alarm := range alarms {
				relative := must.Value(filepath.Rel(r.path("fme"), alarm))(t)
				files = append(files, "fme/"+relative)
			}
			for _, file := range files {
				if file == "fme/driver" || file == "fme/hwmon" {
					continue // not files
				}
				want := slices.Contains(rare, file) || slices.Contains(files[:3], file)
				for _, content := range []string{"changed\n", absent} {
					old := r.swap(t, file, content)
					check(file+" "+content, want)
					r.put(t, file, old)
					check(file+" as before", true)
				}
			}
			for _, entry := range r.entries(unit) {
				aside := filepath.Join(t.TempDir(), "entry")
				must.Succeed(t, os.Rename(entry, aside))
				check(entry+" is away", false)
				must.Succeed(t, os.Rename(aside, entry))
				check(entry+" is back", true)
			}
		}
	}
}

// entries returns the paths of the drivers and device nodes that a check compares.
func (r *rig) entries(unit port.Kind) []string {
	dev := func(dir string) string { return filepath.Join(r.host.Dev, filepath.Base(dir)) }
	all := []string{r.path("driver"), r.path("fme/driver"), dev(r.port)}
	if unit == port.PerFMEWithNode {
		all = append(all, dev(r.fme))
	}
	return all
}

// TestCheckSkipsLockedFiles checks that a check doesn't read files that are locked while a port is being programmed.
func TestCheckSkipsLockedFiles(t *testing.T) {
	r := newRig(t, "dfl")
	seen := r.observed(t)
	r.put(t, "fme/manager", "write\n")
	for _, f := range judged("dfl") {
		if !strings.HasPrefix(f.Name, "fme/errors/fme_") && !strings.HasPrefix(f.Name, "fme/errors/pcie") {
			continue
		}
		must.Succeed(t, os.Remove(r.path(f.Name)), syscall.Mkfifo(r.path(f.Name), 0o600))
	}
	if sysfs.Unchanged(seen) { // hangs if it reads a locked file
		t.Error("unchanged, want changed: the state of the manager differs")
	}
}
