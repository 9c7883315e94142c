package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/artifact"
	"b-com.com/accelerator-device-plugin/registry/signature"
)

// Pulled is the result of a pull.
type Pulled struct {
	Path      string
	Bitstream *programming.Bitstream // already closed
	Digest    digest.Digest          // the manifest's digest
	Installed bool                   // false if the store already had the file
}

// Options control [Client.Pull].
type Options struct {
	Force     bool           // replace a different file in the store
	Keys      signature.Keys // the manifest must be signed with one of these; nil means that no signature is needed
	KeepParts bool           // keep other pulls' partial downloads; otherwise remove those of pulls that aren't running
	// Ready may be nil. It is called just before the file is installed, once it is complete and its digest has been
	// verified. If Ready returns an error, the file isn't installed.
	Ready func() error
}

// Resolve returns the description in a reference's manifest, and the manifest's digest. It doesn't change anything or
// check signatures.
func (c *Client) Resolve(ctx context.Context, ref registry.Reference) (artifact.Description, digest.Digest, error) {
	text, manifest, err := c.manifest(ctx, c.repository(ref), ref.Reference)
	if err != nil {
		return artifact.Description{}, "", err
	}
	d, err := artifact.Parse(text)
	return d, manifest.Digest, err
}

// Pull installs a reference's bitstream in the store. If the store has a [SignersFile], the manifest must be signed
// with one of the keys in it.
func (c *Client) Pull(ctx context.Context, ref registry.Reference, store programming.Store, o Options) (Pulled, error) {
	repo := c.repository(ref)
	text, manifest, err := c.manifest(ctx, repo, ref.Reference)
	if err != nil {
		return Pulled{}, err
	}
	d, err := artifact.Parse(text)
	if err != nil {
		return Pulled{}, err
	}
	dir, err := privatedir.OpenDir(string(store), true)
	if err != nil {
		return Pulled{}, err
	}
	defer dir.Close()
	policy, err := signers(dir)
	if err == nil && policy != nil {
		err = c.verify(ctx, repo, manifest, policy, filepath.Join(dir.Name(), SignersFile))
	}
	if err == nil && o.Keys != nil {
		err = c.verify(ctx, repo, manifest, o.Keys, "--key")
	}
	if err != nil {
		return Pulled{}, err
	}
	if !o.KeepParts {
		if err := removeParts(dir, PartName(d)); err != nil {
			return Pulled{}, err
		}
	}
	p, err := c.openPart(ctx, dir, d)
	if err != nil {
		return Pulled{}, err
	}
	defer p.close()
	switch b, err := stored(ctx, store, d); {
	case err == nil && b != nil:
		return Pulled{b.Path, b, manifest.Digest, false}, nil
	case err != nil && !o.Force:
		return Pulled{}, err
	}
	if err := c.download(ctx, repo, p); err != nil {
		return Pulled{}, p.explain(ctx, err)
	}
	b, err := programming.Open(p.path)
	if err != nil {
		return Pulled{}, err
	}
	defer b.Close()
	if err = d.Check(b); err == nil && o.Ready != nil {
		err = o.Ready()
	}
	if err != nil {
		return Pulled{}, p.explain(ctx, err)
	}
	path, err := store.Install(ctx, b, programming.InstallOptions{Force: o.Force})
	if err != nil {
		err = p.explain(ctx, err)
	}
	return Pulled{path, b, manifest.Digest, true}, err
}

// RemoveParts removes partial downloads that interrupted pulls left behind in the store, except for the named files.
func RemoveParts(store programming.Store, except ...string) error {
	dir, err := privatedir.OpenDir(string(store), false)
	if err != nil {
		return err
	}
	defer dir.Close()
	return removeParts(dir, except...)
}

// removeParts removes partial downloads of pulls that aren't running, except for the named files.
func removeParts(dir *os.Root, except ...string) error {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return privatedir.PathError(dir.Name(), err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasPrefix(name, partPrefix) || slices.Contains(except, name) {
			continue
		}
		lock, err := privatedir.TryLock(dir, name, privatedir.Exclusive)
		if lock != nil {
			err = errors.Join(privatedir.RemoveFile(dir, name), lock.Release())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stored returns the bitstream that d describes, closed, if the store already has the same file. It returns nil if the
// store doesn't have the bitstream, and an error if the store has a different file for it.
func stored(ctx context.Context, store programming.Store, d artifact.Description) (*programming.Bitstream, error) {
	b, err := store.Lookup(d.InterfaceID, d.ID())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer b.Close()
	if b.Content().Size() == d.Size {
		sum, err := digest.FromReader(b.Content())
		if err == nil && sum == d.File {
			err = b.Check(ctx)
		}
		if err != nil || sum == d.File {
			return b, err
		}
	}
	return nil, fmt.Errorf("%s: found another file, want none or the file with digest %s: --force replaces it", b.Path, d.File)
}

// part is the file that a pull downloads to.
type part struct {
	artifact.Description
	path string
	name string // in dir
	dir  *os.Root
	lock *privatedir.Lock // the lock on this file
	file *os.File
	size int64     // the file's size
	hash hash.Hash // the file's hash
	old  bool      // the file's beginning was written by an earlier pull
	keep bool      // keep the file for the next pull
}

const partPrefix = ".pull-"

// PartName returns the name of the file in the store that a pull downloads to. Two pulls use the same name only if they
// install the same file under the same ID. The file's digest alone wouldn't be enough: a hostile manifest can announce
// another bitstream's digest, and its registry can then send something else.
func PartName(d artifact.Description) string {
	return partPrefix + digest.FromString(d.InterfaceID+" "+d.ID()+" "+d.File.String()).Encoded() + "." + d.Format
}

// openPart opens the file that an earlier pull was downloading to, or creates it. It waits until no other pull is using
// the file.
func (c *Client) openPart(ctx context.Context, dir *os.Root, d artifact.Description) (_ *part, err error) {
	p := &part{Description: d, dir: dir, name: PartName(d)}
	p.path = filepath.Join(dir.Name(), p.name)
	if p.lock, err = privatedir.TryLock(dir, p.name, privatedir.Exclusive); err == nil && p.lock == nil {
		c.Log("waiting for another pull of this file into " + dir.Name())
		p.lock, err = privatedir.AcquireLock(ctx, dir, p.name)
	}
	if err != nil {
		return nil, err
	}
	if p.file, err = privatedir.OpenFile(dir, p.name, os.O_RDWR); err != nil {
		p.lock.Release()
		return nil, err
	}
	p.hash = sha256.New()
	if p.size, err = io.Copy(p.hash, io.LimitReader(p.file, d.Size+1)); err != nil || p.size > d.Size {
		err = errors.Join(err, p.restart())
	}
	if p.old = p.size > 0; err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// restart empties the file.
func (p *part) restart() error {
	p.size, p.old = 0, false
	p.hash.Reset()
	_, err := p.file.Seek(0, io.SeekStart)
	return errors.Join(err, p.file.Truncate(0))
}

func (p *part) close() {
	p.file.Close()
	if !p.keep {
		_ = p.dir.Remove(p.name) // if this fails, the next pull removes the file
	}
	p.lock.Release()
}

// explain decides whether the next pull can resume a download that failed with err. If so, it keeps the file and adds a
// note to the error.
func (p *part) explain(ctx context.Context, err error) error {
	if p.size > 0 && (ctx.Err() != nil || temporary(err, true)) {
		p.keep = true
		return fmt.Errorf("%w (%d of %d bytes are in %s, and the next pull continues there)", plain(err), p.size, p.Size, p.path)
	}
	return err
}

// download downloads the rest of the file and verifies its digest.
func (c *Client) download(ctx context.Context, repo *remote.Repository, p *part) error {
	for {
		err := c.attempts(ctx, func() (bool, error) {
			before := p.size
			err := c.fetch(ctx, repo, p)
			return p.size > before, err
		})
		if err != nil {
			return err
		}
		sum := digest.NewDigest(digest.SHA256, p.hash)
		if sum == p.File {
			return nil
		}
		if !p.old {
			return fmt.Errorf("file: found digest %s, want %s", sum, p.File)
		}
		// After a power loss, the end of the old part may be missing from the disk.
		c.Log("the file of an earlier pull is damaged: starting again")
		if err := p.restart(); err != nil {
			return err
		}
	}
}

// fetch resumes the download where the file ends.
func (c *Client) fetch(ctx context.Context, repo *remote.Repository, p *part) error {
	if p.size == p.Size {
		return nil
	}
	r, err := blob(ctx, repo, p.File, p.size)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(writer(func(b []byte) (int, error) {
		n, err := p.file.Write(b)
		p.hash.Write(b[:n])
		p.size += int64(n)
		c.Progress(p.size, p.Size)
		return n, err
	}), io.LimitReader(r, p.Size-p.size))
	if err == nil && p.size < p.Size {
		err = fmt.Errorf("file: found %d bytes, want %d", p.size, p.Size)
	}
	return err
}

// blob returns a reader for a blob from the given offset on. It doesn't use Blobs().Fetch, which would first request
// the whole blob.
func blob(ctx context.Context, repo *remote.Repository, of digest.Digest, from int64) (io.ReadCloser, error) {
	address := url.URL{Scheme: "https", Host: repo.Reference.Host(), Path: "/v2/" + repo.Reference.Repository + "/blobs/" + of.String()}
	if repo.PlainHTTP {
		address.Scheme = "http"
	}
	ctx = auth.AppendRepositoryScope(ctx, repo.Reference, auth.ActionPull)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := repo.Client.Do(req)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusPartialContent && from > 0 && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from)):
	case resp.StatusCode == http.StatusOK: // the whole blob
		var n int64
		if n, err = io.CopyN(io.Discard, resp.Body, from); errors.Is(err, io.EOF) {
			err = fmt.Errorf("file: found %d bytes, want more than %d", n, from)
		}
	default:
		err = &errcode.ErrorResponse{Method: req.Method, URL: req.URL, StatusCode: resp.StatusCode}
	}
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
