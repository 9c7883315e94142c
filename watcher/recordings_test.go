package watcher_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/watcher"
)

// recordings is the directory of uevents of a real kernel with DFL cards, recorded by hand. In a
// file, each message follows its length in 32 bits, little-endian. The recordings are not part of
// the repository; without them the test is skipped.
const recordings = "../../shared/recordings/kernel-6.1/uevents"

// recorded has the number of messages for each card in a recording. It has the recordings of
// situations that `make fixtures` does not record.
var recorded = map[string]map[string]int{
	"14-synthetic-uevent":   {"0000:01:00.0": 2},
	"31-unplug-while-open":  {"0000:01:00.0": 15},
	"32-add-while-old-open": {"0000:01:00.0": 15},
	"41-stale-watch":        {"0000:01:00.0": 45},
	"42-open-attribute":     {"0000:01:00.0": 15},
}

func TestRecordings(t *testing.T) {
	if _, err := os.Stat(recordings); errors.Is(err, fs.ErrNotExist) {
		t.Skip("found no recordings")
	}
	judge := watcher.Judge()
	for name, want := range recorded {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, raw := range messages(t, filepath.Join(recordings, name+".raw")) {
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

// agree compares the result of Parse for a message of the kernel with that of go-udev.
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
