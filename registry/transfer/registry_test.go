package transfer_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/artifact"
	"b-com.com/accelerator-device-plugin/registry/signature"
	"b-com.com/accelerator-device-plugin/registry/transfer"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/pipes"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

const reference = "example.com/fpga/nlb:1.0"

// good is a bitstream of 64 KiB.
var good = bits.GBS(bits.Metadata(bits.Interface, bits.AFU), bytes.Repeat([]byte("raw bits"), 8<<10))

// described returns the description of a file with the ids of good.
func described(file []byte) artifact.Description {
	return artifact.Description{Format: programming.GBS, InterfaceID: bits.Interface, AFUID: bits.AFU, File: digest.FromBytes(file), Size: int64(len(file))}
}

// registry is a registry with one artifact, which may be hostile. It runs in memory, so that synctest controls the
// time.
type registry struct {
	manifest  []byte
	file      []byte
	signature []byte                   // the manifest with the tag of signatures; nil: none
	referrers []byte                   // an index; nil: none
	blobs     map[digest.Digest][]byte // besides the file, also the manifests of referrers
	// serve, if it is not nil, answers a request, or returns false.
	serve func(w http.ResponseWriter, r *http.Request) bool

	mu     sync.Mutex
	dialed []string // addresses
	asked  []string // requests for the file: their ranges
}

// newRegistry returns a registry with good.
func newRegistry(t *testing.T) *registry {
	return &registry{manifest: must.Value(described(good).Manifest("nlb.gbs"))(t), file: good}
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if strings.Contains(req.URL.Path, "/blobs/") {
		r.mu.Lock()
		r.asked = append(r.asked, req.Header.Get("Range"))
		r.mu.Unlock()
	}
	switch {
	case r.serve != nil && r.serve(w, req):
	case req.URL.Path == "/v2/fpga/nlb/manifests/1.0":
		serveManifest(w, r.manifest)
	case r.signature != nil && req.URL.Path == "/v2/fpga/nlb/manifests/"+signature.Tag(digest.FromBytes(r.manifest)):
		serveManifest(w, r.signature)
	case r.referrers != nil && req.URL.Path == "/v2/fpga/nlb/referrers/"+digest.FromBytes(r.manifest).String():
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		w.Write(r.referrers)
	case strings.HasPrefix(req.URL.Path, "/v2/fpga/nlb/manifests/sha256:"):
		serveManifest(w, r.blobs[digest.Digest(path.Base(req.URL.Path))])
	case strings.HasPrefix(req.URL.Path, "/v2/fpga/nlb/blobs/"):
		content, ok := r.blobs[digest.Digest(path.Base(req.URL.Path))]
		if !ok {
			content = r.file
		}
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(content))
	default:
		http.NotFound(w, req)
	}
}

// blobs answers requests for files with serve, and no other requests.
func blobs(serve http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, req *http.Request) bool {
		file := strings.Contains(req.URL.Path, "/blobs/")
		if file {
			serve(w, req)
		}
		return file
	}
}

func serveManifest(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
	w.Header().Set("Docker-Content-Digest", digest.FromBytes(text).String())
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.Write(text)
}

// rig is a client of the registry, and an empty store.
type rig struct {
	*transfer.Client
	*registry
	store string
	log   []string
	dial  func(context.Context) (net.Conn, error) // connects to the registry
}

// run runs a test with a registry that speaks TLS, or http.
func (r *registry) run(t *testing.T, plain bool, test func(t *testing.T, r *rig)) {
	t.Helper()
	store := privatedirtest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		server := httptest.NewUnstartedServer(r)
		server.Listener.Close()
		listener := pipes.Listen(0)
		server.Listener = listener
		server.Config.ErrorLog = nil
		var clients []net.Conn
		rig := &rig{registry: r, store: store, dial: func(ctx context.Context) (net.Conn, error) {
			conn, err := listener.Dial(ctx, "", "")
			if err == nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				clients = append(clients, conn)
			}
			return conn, err
		}}
		rig.Client = &transfer.Client{PlainHTTP: plain, Stall: 30 * time.Second, UserAgent: "test", Progress: func(_, _ int64) {},
			Log: func(text string) { rig.log = append(rig.log, text) }}
		if plain {
			server.Start()
		} else {
			server.StartTLS()
			rig.Roots = x509.NewCertPool()
			rig.Roots.AddCert(server.Certificate())
		}
		defer server.Close()
		defer func() { // else both ends could wait for each other to read the end of TLS
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, c := range clients {
				c.Close()
			}
		}()
		rig.DialWith(func(ctx context.Context, _, address string) (net.Conn, error) {
			r.mu.Lock()
			r.dialed = append(r.dialed, address)
			r.mu.Unlock()
			return rig.dial(ctx)
		})
		test(t, rig)
	})
}

func (r *rig) pull(ctx context.Context) (transfer.Pulled, error) {
	return r.pullWith(ctx, reference, transfer.Options{})
}

func (r *rig) pullWith(ctx context.Context, reference string, o transfer.Options) (transfer.Pulled, error) {
	ref, err := transfer.ParseReference(reference)
	if err != nil {
		return transfer.Pulled{}, err
	}
	p, err := r.Pull(ctx, ref, programming.Store(r.store), o)
	if err != nil {
		err = transfer.Explain(ref, err)
	}
	return p, err
}

// files returns the files of the store by path.
func (r *rig) files(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	must.Succeed(t, filepath.WalkDir(r.store, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(r.store, path)
		files[name] = string(text)
		return err
	}))
	return files
}
