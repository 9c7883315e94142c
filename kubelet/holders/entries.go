package holders

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

const (
	entriesFile = "entries.json"
	maxEntries  = 4 << 20 // size of the file in bytes, the same as for the kubelet's checkpoint
)

// knownEntries is what a daemon knows about the entries of the checkpoint that the next daemon could not find out.
// While no device plugin runs, the kubelet does not write the checkpoint again, so the entries of containers that have
// ended stay. If the kubelet named a container and then stops naming it, the container has ended. If the kubelet never
// named it, it may be an init container: a daemon must watch the kubelet for the grace time to know that it has ended.
// The file counts only for the same checkpoint, and Named only for the same kubelet. Without the file, the next daemon
// waits for the grace time.
type knownEntries struct {
	Version    int                 `json:"version"`
	Checkpoint time.Time           `json:"checkpoint"`       // when the checkpoint's file was written
	Ended      map[string][]string `json:"ended"`            // resource/id -> containers, POD-UID/NAME
	Named      map[string][]string `json:"named,omitempty"`  // by the kubelet, and not known to have ended
	Kubelet    time.Time           `json:"kubelet,omitzero"` // start of the kubelet that has named them
}

// of returns the entries if the checkpoint is of this time.
func (e knownEntries) of(checkpoint time.Time) knownEntries {
	if !e.Checkpoint.Equal(checkpoint) {
		return knownEntries{}
	}
	return e
}

// equal reports whether e and other say the same about the same checkpoint.
func (e knownEntries) equal(other knownEntries) bool {
	return e.Checkpoint.Equal(other.Checkpoint) && e.Kubelet.Equal(other.Kubelet) && reflect.DeepEqual(e.Ended, other.Ended) && reflect.DeepEqual(e.Named, other.Named)
}

// readEntries returns what an earlier daemon has written to the state directory, if that can be read.
func readEntries(dir string) (e knownEntries) {
	root, err := privatedir.OpenDir(dir, false)
	if err != nil {
		return e
	}
	defer root.Close()
	text, err := privatedir.ReadFile(root, entriesFile, maxEntries)
	if err != nil || json.Unmarshal(text, &e) != nil || e.Version != 1 {
		return knownEntries{}
	}
	return e
}

// write writes the entries to the state directory.
func (e knownEntries) write(dir string) error {
	root, err := privatedir.OpenDir(dir, true)
	if err != nil {
		return err
	}
	defer root.Close()
	space := maxEntries - 300 // for the rest of the file
	e.Ended, e.Named = fitting(e.Ended, &space), fitting(e.Named, &space)
	text, err := json.Marshal(e)
	if err == nil {
		_, err = privatedir.ReplaceFile(root, entriesFile, text)
	}
	return err
}

// fitting returns the devices for which there is space, those with the fewest containers first. The others count for
// the grace time again: a device that is withheld too long is better than one that is given out twice.
func fitting(all map[string][]string, space *int) map[string][]string {
	devices := map[string][]string{}
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(all[a]), len(all[b])), cmp.Compare(a, b))
	}) {
		text, _ := json.Marshal(map[string][]string{key: all[key]}) // cannot fail
		if *space -= len(text); *space < 0 {
			break
		}
		devices[key] = all[key]
	}
	return devices
}
