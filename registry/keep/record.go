package keep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

const (
	recordName    = ".keep.json"
	lockName      = ".keep.lock"
	recordVersion = 1
	largestRecord = 1 << 20
	mostFiles     = 1000 // files that keep installed; each takes up about 500 bytes of the record
	mostNamed     = 500  // references; each takes up at most 900 bytes
)

// record is what .keep.json contains.
type record struct {
	Version    int              `json:"version"`
	References map[string]named `json:"references"` // by reference, including some that are no longer on the list
	Files      map[string]file  `json:"files"`      // files that keep installed, by path in the store: INTERFACE/ID.FORMAT
}

// named is the bitstream that a reference named when last pulled or checked.
type named struct {
	Manifest digest.Digest `json:"manifest"`
	Path     string        `json:"path"` // in the store
	File     digest.Digest `json:"file"`
}

// file is a file that keep installed.
type file struct {
	InterfaceID string        `json:"interfaceId"`
	ID          string        `json:"id"`
	AFUID       string        `json:"afuId"`
	Digest      digest.Digest `json:"digest"`
	Next        digest.Digest `json:"next,omitempty"` // digest of a file that is about to replace this one, or was when the process ended
	Size        int64         `json:"size"`
	Unnamed     time.Time     `json:"unnamed,omitzero"` // when the last listed reference stopped naming the file; zero if one still names it
}

// has reports whether sum is the digest of content that keep has installed in the file or was about to install.
func (f file) has(sum digest.Digest) bool { return sum != "" && (sum == f.Digest || sum == f.Next) }

func newRecord() *record {
	return &record{Version: recordVersion, References: map[string]named{}, Files: map[string]file{}}
}

// readRecord returns the store's record, or an empty one if the file doesn't exist.
func readRecord(dir *os.Root) (*record, error) {
	text, err := privatedir.ReadFile(dir, recordName, largestRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return newRecord(), nil
	}
	if err != nil {
		return nil, err
	}
	r := newRecord()
	if err = privatedir.DecodeJSON(text, r); err == nil && r.Version != recordVersion {
		err = fmt.Errorf("found version %d, want %d", r.Version, recordVersion)
	}
	if err == nil && (r.References == nil || r.Files == nil) {
		err = errors.New("found no references or no files, want both")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove the file, then keep neither replaces nor removes the files that it has installed", filepath.Join(dir.Name(), recordName), err)
	}
	return r, nil
}

// update records when each file stopped being named by a listed reference. A reference that is removed from the list
// stays in the record for as long as its file exists, so that if it is listed again, the file counts as named even if
// the registry can't be reached.
func (r *record) update(listed func(reference string) bool, now time.Time) {
	paths := map[string]bool{}
	for reference, n := range r.References {
		switch {
		case listed(reference):
			paths[n.Path] = true
		case !r.Files[n.Path].has(n.File) || len(r.References) > mostNamed:
			delete(r.References, reference)
		}
	}
	for path, f := range maps.All(r.Files) {
		switch {
		case paths[path]:
			f.Unnamed = time.Time{}
		case f.Unnamed.IsZero() || f.Unnamed.After(now): // the clock was wrong
			f.Unnamed = now
		}
		r.Files[path] = f
	}
}

// text returns the record as it is stored in the file.
func (r *record) text() (string, error) {
	text, err := json.MarshalIndent(r, "", " ")
	return string(text) + "\n", err
}
