package holders

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

const (
	endedFile = "ended.json"
	maxEnded  = 4 << 20 // size of the file in bytes, that of the kubelet's checkpoint
)

// endedEntries are the entries of the checkpoint whose containers are known to have ended. While no device plugin runs,
// the kubelet does not write the checkpoint again, so the entries stay, and only a daemon that has watched the kubelet
// for the grace time knows better. The file tells the next daemon. It counts only for the same checkpoint. Without it,
// the next daemon waits for the grace time again.
type endedEntries struct {
	Version    int                 `json:"version"`
	Checkpoint time.Time           `json:"checkpoint"` // time of the checkpoint's file
	Devices    map[string][]string `json:"devices"`    // resource/id -> containers, POD-UID/NAME
}

// known returns the containers of each device, if the checkpoint is of this time.
func (e endedEntries) known(checkpoint time.Time) map[string][]string {
	if !e.Checkpoint.Equal(checkpoint) {
		return nil
	}
	return e.Devices
}

// readEnded returns what an earlier daemon has written to the state directory, if that can be read.
func readEnded(dir string) (e endedEntries) {
	root, err := privatedir.OpenDir(dir, false)
	if err != nil {
		return e
	}
	defer root.Close()
	text, err := privatedir.ReadFile(root, endedFile, maxEnded)
	if err != nil || json.Unmarshal(text, &e) != nil || e.Version != 1 {
		return endedEntries{}
	}
	return e
}

// write writes the entries to the state directory.
func (e endedEntries) write(dir string) error {
	root, err := privatedir.OpenDir(dir, true)
	if err != nil {
		return err
	}
	defer root.Close()
	e.Devices = e.fitting()
	text, err := json.Marshal(e)
	if err == nil {
		_, err = privatedir.ReplaceFile(root, endedFile, text)
	}
	return err
}

// fitting returns the devices for which the file has space, those with the fewest containers first. The others count for
// the grace time again: a device that is withheld too long is better than one that is given out twice.
func (e endedEntries) fitting() map[string][]string {
	devices, size := map[string][]string{}, 200 // of the rest of the file
	for _, key := range slices.SortedFunc(maps.Keys(e.Devices), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(e.Devices[a]), len(e.Devices[b])), cmp.Compare(a, b))
	}) {
		text, _ := json.Marshal(map[string][]string{key: e.Devices[key]}) // cannot fail
		if size += len(text); size > maxEnded {
			break
		}
		devices[key] = e.Devices[key]
	}
	return devices
}
