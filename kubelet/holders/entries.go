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
	maxEntries  = 4 << 20 // maximum file size in bytes, same as for the checkpoint
)

// knownEntries stores what a daemon has learned about the checkpoint's entries that the next daemon couldn't find out
// by itself. While no device plugin is running, the kubelet doesn't rewrite the checkpoint, so the entries of
// containers that have exited stay. If the kubelet used to list a container and no longer does, the container has
// exited. But if the kubelet has never listed it, it may be an init container, and a daemon has to watch the kubelet
// for the grace time before it can tell that the container has exited. The file is valid only for the checkpoint it was
// written for, and Named only until the kubelet is restarted. Without the file, the next daemon waits for the grace
// time.
type knownEntries struct {
	Version    int                 `json:"version"`
	Checkpoint time.Time           `json:"checkpoint"`       // when the kubelet wrote the checkpoint
	Ended      map[string][]string `json:"ended"`            // resource/id -> containers, POD-UID/NAME
	Named      map[string][]string `json:"named,omitempty"`  // the same, for listed containers that may still be alive
	Kubelet    time.Time           `json:"kubelet,omitzero"` // when the kubelet that listed them started
}

// of returns e if it describes the checkpoint that was written at the given time, or else the zero value.
func (e knownEntries) of(checkpoint time.Time) knownEntries {
	if !e.Checkpoint.Equal(checkpoint) {
		return knownEntries{}
	}
	return e
}

// equal reports whether e and other say the same things about the same checkpoint.
func (e knownEntries) equal(other knownEntries) bool {
	return e.Checkpoint.Equal(other.Checkpoint) && e.Kubelet.Equal(other.Kubelet) && reflect.DeepEqual(e.Ended, other.Ended) && reflect.DeepEqual(e.Named, other.Named)
}

// readEntries returns what an earlier daemon wrote to the state directory, or the zero value if it can't be read.
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
	space := maxEntries - 300 // leave room for the rest of the file
	e.Ended, e.Named = fitting(e.Ended, &space), fitting(e.Named, &space)
	text, err := json.Marshal(e)
	if err == nil {
		_, err = privatedir.ReplaceFile(root, entriesFile, text)
	}
	return err
}

// fitting returns as many of the devices as fit into the space, starting with those that have the fewest containers.
// Entries for the devices that don't fit will count for the grace time again, because withholding a device for too long
// is better than allocating it twice.
func fitting(all map[string][]string, space *int) map[string][]string {
	devices := map[string][]string{}
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(all[a]), len(all[b])), cmp.Compare(a, b))
	}) {
		text, _ := json.Marshal(map[string][]string{key: all[key]}) // can't fail
		if *space -= len(text); *space < 0 {
			break
		}
		devices[key] = all[key]
	}
	return devices
}
