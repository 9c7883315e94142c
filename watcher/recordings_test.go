package watcher_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/watcher"
)

// recordings are uevents of a real kernel with DFL cards: each message after its
// length, 32 bits little-endian.
const recordings = "../../shared/recordings/kernel-6.1/uevents"

// recorded says which cards each recording names, and how many messages concern
// them. A recording that is not here names none.
var recorded = map[string]map[string]int{
	"02-pci-add-no-driver":          {"0000:01:00.0": 1},
	"03-driver-load-bind":           {"0000:01:00.0": 14},
	"04-card-add":                   {"0000:02:00.0": 15},
	"05-driver-unbind":              {"0000:02:00.0": 14},
	"06-driver-bind":                {"0000:02:00.0": 14},
	"07-port-release":               {"0000:02:00.0": 2},
	"08-port-assign":                {"0000:02:00.0": 1},
	"14-synthetic-uevent":           {"0000:01:00.0": 2},
	"15-sysfs-remove":               {"0000:02:00.0": 14},
	"16-sysfs-rescan":               {"0000:02:00.0": 15},
	"17-hot-unplug":                 {"0000:02:00.0": 15},
	"18-vf-add":                     {"0000:03:00.0": 5},
	"19-two-cards-at-once":          {"0000:02:00.0": 15, "0000:04:00.0": 15},
	"20-surprise-removal":           {"0000:01:00.0": 15},
	"21-dfl-pci-unload":             {"0000:02:00.0": 14, "0000:03:00.0": 4, "0000:04:00.0": 14},
	"23-modules-load-cards-present": {"0000:02:00.0": 14, "0000:03:00.0": 4, "0000:04:00.0": 14},
	"31-unplug-while-open":          {"0000:01:00.0": 15},
	"32-add-while-old-open":         {"0000:01:00.0": 15},
	"41-stale-watch":                {"0000:01:00.0": 45},
	"42-open-attribute":             {"0000:01:00.0": 15},
	"43-release-assign":             {"0000:01:00.0": 3},
	"51-rp0-add":                    {"0000:01:00.0": 15},
	"52-rp0-remove":                 {"0000:01:00.0": 15},
}

func TestRecordings(t *testing.T) {
	files, err := filepath.Glob(recordings + "/*.raw")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(recordings); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the recordings are not here")
	}
	judge := watcher.Judge()
	missing := maps.Clone(recorded)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".raw")
		want := recorded[name]
		if want == nil {
			want = map[string]int{}
		}
		delete(missing, name)
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, raw := range messages(t, file) {
				hint, relevant, err := judge(raw)
				if err != nil {
					t.Errorf("%q: %v", raw, err)
				}
				if relevant {
					got[hint.Card]++
				}
				agree(t, raw)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("hints (-want +got):\n%s", diff)
			}
		})
	}
	if len(missing) > 0 {
		t.Errorf("not found: %v", slices.Sorted(maps.Keys(missing)))
	}
}

func messages(t *testing.T, file string) [][]byte {
	t.Helper()
	all, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list [][]byte
	for len(all) > 0 {
		n := binary.LittleEndian.Uint32(all)
		list = append(list, all[4:4+n])
		all = all[4+n:]
	}
	return list
}

// agree compares what we read in a message of the kernel with what go-udev does.
func agree(t *testing.T, raw []byte) {
	t.Helper()
	theirs, ok := goudev(raw)
	ours, err := watcher.Parse(raw)
	if !ok || err != nil {
		t.Errorf("%q: go-udev accepts: %v, ours: %v", raw, ok, err)
		return
	}
	for key, value := range ours.Env {
		if theirs.Env[key] != value {
			t.Errorf("%s: %q, go-udev: %q", key, value, theirs.Env[key])
		}
	}
}
