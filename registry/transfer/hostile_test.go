package transfer_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/artifact"
	"b-com.com/accelerator-device-plugin/registry/transfer"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// opencl describes an AOCX.
func opencl(file []byte) artifact.Description {
	d := described(file)
	d.Format, d.AFUID, d.Hash, d.Board = programming.AOCX, bits.OpenCL, bits.Hash, "pac_a10"
	return d
}

// With a hostile registry, a pull fails at the first attempt. Nothing is put into the store, and no file outside it.
func TestHostileRegistry(t *testing.T) {
	manifest := string(must.Value(described(good).Manifest("nlb.gbs"))(t))
	one := func(old, new string) string {
		if strings.Count(manifest, old) != 1 {
			t.Fatalf("found %q not once in %s", old, manifest)
		}
		return strings.Replace(manifest, old, new, 1)
	}
	layer := manifest[strings.Index(manifest, `"layers": [`)+len(`"layers": [`) : strings.LastIndex(manifest, "]")]
	always := func(serve func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { serve(w); return true }
	}
	index := `{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}`
	other := bits.GBS(bits.Metadata(bits.Interface, bits.OtherAFU), []byte("raw"))
	inner := bits.AOCX(bits.Hash, "pac_a10", good)
	for _, test := range []struct {
		name     string
		manifest string // "": the good one
		serve    func(w http.ResponseWriter, req *http.Request) bool
		file     []byte // nil: the good one
		want     string
	}{
		{name: "a hundred layers", manifest: one(layer, strings.Repeat(layer+",", 99)+layer), want: "layers: found 100, want 1"},
		{name: "no layer", manifest: one(layer, ""), want: "layers: found 0, want 1"},
		{name: "index", manifest: index, want: `found "application/vnd.oci.image.index.v1+json" of version 2, want`},
		{name: "giant manifest", manifest: manifest + strings.Repeat(" ", 64<<10), want: "want at most 65536"},
		{name: "endless manifest", serve: always(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Content-Length", "100000000000")
			for range 1 << 20 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}), want: "manifest: found 100000000000 bytes, want at most 65536"},
		{name: "manifest nested too deep", manifest: strings.Repeat("[", 60<<10), want: "exceeded max depth"},
		{name: "no JSON", manifest: "PK", want: "manifest: invalid character"},
		{name: "another artifact", manifest: one(`"artifactType": "application/vnd.b-com.accelerator.bitstream.v1"`, `"artifactType": "application/vnd.cncf.helm"`), want: `artifactType: found "application/vnd.cncf.helm"`},
		{name: "an archive as layer", manifest: one("bitstream.v1.gbs", "bitstream.v1.tar+gzip"), want: "layer: found media type"},
		{name: "layer too large", manifest: one(fmt.Sprintf(`"size": %d`, len(good)), `"size": 536870913`), want: "layer: found 536870913 bytes, want 1 to 536870912"},
		{name: "negative layer", manifest: one(fmt.Sprintf(`"size": %d`, len(good)), `"size": -1`), want: "layer: found -1 bytes"},
		{name: "digest a path", manifest: one(described(good).File.String(), "sha256:../../../../etc/passwd"), want: "layer: found digest"},
		{name: "another digest", manifest: one(described(good).File.String(), digest.SHA512.FromBytes(good).String()), want: "layer: found digest"},
		{name: "interface a path", manifest: one(bits.Interface, "../../../../../../../../../../etc"), want: "annotation com.b-com.accelerator.interface-id: found"},
		{name: "AFU a path", manifest: one(bits.AFU, "../../../../root/.ssh/authorized"), want: "annotation com.b-com.accelerator.afu-id: found"},
		{name: "format a path", manifest: one(`"gbs"`, `"../gbs"`), want: "annotation com.b-com.accelerator.format: found"},
		{name: "hash a path", manifest: string(must.Value(artifact.Description{Format: programming.AOCX, InterfaceID: bits.Interface, AFUID: bits.OpenCL,
			Hash: "../../etc/passwd", File: digest.FromBytes(good), Size: int64(len(good))}.Manifest("x"))(t)), want: "want an id of 8 to 40 hex digits"},

		{name: "wrong digest of the manifest", serve: always(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", described(good).File.String())
			w.Write([]byte(manifest))
		}), want: "mismatched digest"},
		{name: "wrong digest of the file", file: bytes.Repeat([]byte("x"), len(good)), want: "file: found digest sha256:"},
		{name: "endless file", serve: blobs(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush() // without a length
			for range 1 << 20 {
				if _, err := w.Write(good); err != nil {
					return
				}
			}
		}), want: ""},
		{name: "longer file", file: append(good[:len(good):len(good)], "x"...), want: ""},
		{name: "shorter file", serve: blobs(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.Write(good[:100])
		}), want: fmt.Sprintf("file: found 100 bytes, want %d", len(good))},

		{name: "redirect to http", serve: blobs(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "http://example.com"+req.URL.Path+"?x", http.StatusTemporaryRedirect)
		}), want: "example.com: found http, want https"},
		{name: "redirect to a file", serve: blobs(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "file:///etc/passwd", http.StatusTemporaryRedirect)
		}), want: "found file, want https"},
		{name: "endless redirects", serve: blobs(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, req.URL.Path, http.StatusTemporaryRedirect)
		}), want: "stopped after 10 redirects"},
		{name: "giant header", serve: always(func(w http.ResponseWriter) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}), want: "server response headers exceeded"},
		{name: "a hundred thousand headers", serve: always(func(w http.ResponseWriter) {
			for i := range 100_000 {
				w.Header()[fmt.Sprint("X", i)] = []string{"x"}
			}
		}), want: "server response headers exceeded"},
		{name: "giant error", serve: always(func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"errors": [{"code": "DENIED", "message": %q}]}`, strings.Repeat("x", 1<<20))
		}), want: "the registry answers 403 Forbidden"},

		{name: "other ids in the file", manifest: string(must.Value(described(other).Manifest("x"))(t)), file: other,
			want: "afu-id: found \"" + bits.AFU + "\", want \"" + bits.OtherAFU + "\" as in the file"},
		{name: "a GBS as AOCX", manifest: string(must.Value(opencl(good).Manifest("x"))(t)), want: `want "\x7fELF"`},
		{name: "a compressed GBS", manifest: string(must.Value(described(bits.Gzip(good)).Manifest("x"))(t)), file: bits.Gzip(good), want: "as in a GBS"},
		{name: "an AOCX in an AOCX", manifest: string(must.Value(opencl(bits.AOCX(bits.Hash, "pac_a10", inner)).Manifest("x"))(t)),
			file: bits.AOCX(bits.Hash, "pac_a10", inner), want: "as in a GBS"},
		{name: "a GBS compressed twice", manifest: string(must.Value(opencl(bits.AOCX(bits.Hash, "pac_a10", bits.Gzip(good))).Manifest("x"))(t)),
			file: bits.AOCX(bits.Hash, "pac_a10", bits.Gzip(good)), want: "as in a GBS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			reg := newRegistry(t)
			if test.manifest != "" {
				reg.manifest = []byte(test.manifest)
			}
			if test.file != nil {
				reg.file = test.file
			}
			reg.serve = test.serve
			reg.run(t, false, func(t *testing.T, r *rig) {
				_, err := r.pull(t.Context())
				compare.Outcome(t, "pull", test.want, err)
				compare.Empty(t, "attempts", r.log)
				if test.want != "" { // else the rest was not read
					compare.Empty(t, "store", r.files(t))
				}
			})
		})
	}
}

// push pushes good.
func (r *rig) push(t *testing.T) error {
	t.Helper()
	path := filepath.Join(r.store, "nlb.gbs")
	must.Succeed(t, os.WriteFile(path, good, 0o600))
	b := must.Value(programming.Open(path))(t)
	defer b.Close()
	_, err := r.Push(t.Context(), must.Value(transfer.ParseReference(reference))(t), b)
	return err
}

// accept accepts all uploads of a registry at location.
func accept(w http.ResponseWriter, req *http.Request, location string) {
	switch req.Method {
	case http.MethodHead:
		w.WriteHeader(http.StatusNotFound)
	case http.MethodPost:
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusAccepted)
	default:
		io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusCreated)
	}
}

// A registry that does not accept the data of an upload is given up after 30 s. A registry that has received it and
// checks it is given up after 5 minutes.
func TestPushStalls(t *testing.T) {
	for _, test := range []struct {
		name        string
		reads       bool
		hangs, took time.Duration
		want        string
	}{
		{"takes nothing", false, time.Hour, 5 * 30 * time.Second, "found no byte for 30s"},
		{"checks for 4 minutes", true, 4 * time.Minute, 4 * time.Minute, ""},
		{"checks for an hour", true, time.Hour, 5 * 300 * time.Second, "found no byte for 30s"},
	} {
		reg := newRegistry(t)
		reg.serve = func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodPut && req.URL.Path == "/upload" && req.ContentLength > 100 {
				if test.reads {
					io.Copy(io.Discard, req.Body)
				}
				backoff.Wait(req.Context(), test.hangs)
			}
			accept(w, req, "/upload")
			return true
		}
		reg.run(t, true, func(t *testing.T, r *rig) {
			began := time.Now()
			compare.Outcome(t, test.name, test.want, r.push(t))
			if took := time.Since(began); took < test.took || took > test.took+40*time.Second {
				t.Errorf("%s: took %s, want %s", test.name, took, test.took)
			}
		})
	}
}

// A registry cannot redirect an upload to another host.
func TestHostilePush(t *testing.T) {
	for _, test := range []struct{ name, upload, manifest, want string }{
		{"good", "/upload", "", ""},
		{"file to another host", "https://192.0.2.1/upload", "", "on a different host than the registry"},
		{"file without TLS", "http://example.com:443/upload", "", "downgrades scheme from https"},
		{"manifest to another host", "/upload", "https://192.0.2.1/v2/fpga/nlb/manifests/1.0", "192.0.2.1: found a token server or an upload in another domain"},
		{"manifest without TLS", "/upload", "http://example.com/v2/fpga/nlb/manifests/1.0", "example.com: found http, want https"},
	} {
		reg := newRegistry(t)
		reg.serve = func(w http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path == "/v2/fpga/nlb/manifests/1.0" && test.manifest != "" {
				http.Redirect(w, req, test.manifest, http.StatusTemporaryRedirect)
			} else {
				accept(w, req, test.upload)
			}
			return true
		}
		reg.run(t, false, func(t *testing.T, r *rig) {
			compare.Outcome(t, test.name, test.want, r.push(t))
			compare.Values(t, test.name+": addresses", []string{"example.com:443"}, slices.Compact(reg.dialed))
			compare.Empty(t, test.name+": attempts", r.log)
		})
	}
}

// Each failed attempt is logged. A pull gives up after five attempts without progress.
func TestFailingRegistry(t *testing.T) {
	for _, test := range []struct {
		name     string
		answer   func(w http.ResponseWriter)
		attempts int
	}{
		{"server error", func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, 5},
		{"too many requests", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, 5},
		{"closed connection", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 5},
		{"not found", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, 1},
	} {
		reg, asked := newRegistry(t), 0
		reg.serve = func(w http.ResponseWriter, _ *http.Request) bool { asked++; test.answer(w); return true }
		reg.run(t, false, func(t *testing.T, r *rig) {
			compare.Error(t, test.name, reference, compare.ErrorOf(r.pull(t.Context())))
			compare.Equal(t, test.name+": attempts", test.attempts, asked)
			compare.Equal(t, test.name+": lines of the log", test.attempts-1, len(r.log))
		})
	}
}

// A reference is a command-line argument: a wrong one is an error before any connection.
func TestReferences(t *testing.T) {
	for text, want := range map[string]string{
		"example.com/nlb": "", "example.com:5000/a/b/nlb:1.0": "", "[::1]:5000/nlb": "", "example.com/nlb@" + described(good).File.String(): "",
		"nlb:1.0": "want REGISTRY/NAME", "example.com/../etc:1": "want REGISTRY/NAME", "example.com/NLB": "in lower case", "": "want REGISTRY/NAME",
		"user:password@example.com/nlb": "want REGISTRY/NAME", "https://example.com/nlb": "want REGISTRY/NAME", "example.com/nlb@sha256:12": "want REGISTRY/NAME",
		"example.com/nlb:../1": "want REGISTRY/NAME", "example.com/nlb?x:1": "want REGISTRY/NAME",
	} {
		reg := newRegistry(t)
		reg.run(t, false, func(t *testing.T, r *rig) {
			_, err := r.pullWith(t.Context(), text, transfer.Options{})
			if want == "" {
				want = "found none in the registry"
			} else {
				compare.Empty(t, text+": connections", reg.dialed)
			}
			compare.Error(t, text, want, err)
		})
	}
}
