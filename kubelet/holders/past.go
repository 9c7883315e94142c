package holders

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/podcgroup"
)

const (
	pastFile = "allocated.json"
	maxPast  = 4 << 20 // maximum file size in bytes, same as for the checkpoint
)

// past is the file in the state directory that contains the checkpoint's entries for our devices. The kubelet removes a
// force-deleted pod's entry from the checkpoint while the pod still has processes. A daemon that starts after that, even
// if it only takes over during an upgrade, finds the entry here. The file is in the same format as the checkpoint, and is
// shared by the device plugin and the DRA driver. It may contain entries of pods that have ended, because pods are only
// looked for in the cgroups when it is used.
type past struct {
	entries map[string]checkpoint.Entry // the newest ones, including those that the kubelet has removed
	text    []byte                      // content of the file as last written
}

// readPast returns the entries that earlier daemons stored, or nil if they can't be read.
func readPast(dir string) []checkpoint.Entry {
	root, err := privatedir.OpenDir(dir, false)
	if err != nil {
		return nil
	}
	defer root.Close()
	text, err := privatedir.ReadFile(root, pastFile, maxPast)
	if err != nil {
		return nil
	}
	entries, _ := checkpoint.Decode(text)
	return entries
}

// storeAll stores the entries for our devices after each version of the checkpoint, until ctx is done. It has its own
// goroutine, because reading the next version must not wait for the disk.
func (s *Source) storeAll(ctx context.Context, versions <-chan checkpoint.Record) {
	if s.cfg.StateDir == "" {
		return
	}
	var p past
	for {
		select {
		case <-ctx.Done():
			return
		case record := <-versions:
			s.store(ctx, &p, record)
		}
	}
}

// store writes the entries for our devices to the state directory if they have changed: those in the checkpoint, and
// those that the kubelet has removed even though their pods still have processes. An error is ignored, because the next
// call tries again.
func (s *Source) store(ctx context.Context, p *past, record checkpoint.Record) {
	s.mu.Lock()
	known := s.unstored
	s.unstored = map[string]checkpoint.Entry{}
	s.mu.Unlock()
	maps.Copy(known, p.entries)
	p.entries = map[string]checkpoint.Entry{}
	for _, e := range slices.Concat(record.Entries, s.alive(removedFrom(record, known))) {
		if slices.ContainsFunc(e.IDs, e.Ours) {
			p.entries[nameOf(e)] = e
		}
	}
	var sorted []checkpoint.Entry
	for _, name := range slices.Sorted(maps.Keys(p.entries)) {
		sorted = append(sorted, p.entries[name])
	}
	text, err := checkpoint.Encode(sorted)
	if err != nil || len(text) > maxPast || bytes.Equal(text, p.text) {
		return
	}
	err = s.disk.Within(context.WithoutCancel(ctx), diskWithin, func(context.Context) error {
		root, err := privatedir.OpenDir(s.cfg.StateDir, true)
		if err != nil {
			return err
		}
		defer root.Close()
		if len(sorted) == 0 {
			return privatedir.RemoveFile(root, pastFile)
		}
		_, err = privatedir.ReplaceFile(root, pastFile, text)
		return err
	})
	if err == nil {
		p.text = text
	}
}

// removedFrom returns the entries that aren't in the record.
func removedFrom(record checkpoint.Record, known map[string]checkpoint.Entry) map[string]checkpoint.Entry {
	removed := maps.Clone(known)
	for _, e := range record.Entries {
		delete(removed, nameOf(e))
	}
	return removed
}

// alive returns the entries whose pods have processes.
func (s *Source) alive(entries map[string]checkpoint.Entry) (alive []checkpoint.Entry) {
	var uids []string
	for _, e := range entries {
		uids = append(uids, e.PodUID)
	}
	found := podcgroup.Alive(s.cfg.CgroupRoot, uids)
	for _, e := range entries {
		if found[e.PodUID] {
			alive = append(alive, e)
		}
	}
	return alive
}
