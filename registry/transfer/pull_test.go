package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry/remote/auth"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/transfer"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const installed = bits.Interface + "/" + bits.AFU + ".gbs"

// A pull installs the bitstream, and does nothing the second time. It replaces another file only with force.
func TestPull(t *testing.T) {
	for _, plain := range []bool{false, true} {
		newRegistry(t).run(t, plain, func(t *testing.T, r *rig) {
			p, err := r.pull(t.Context())
			compare.NoError(t, "pull", err)
			compare.Equal(t, "path", filepath.Join(r.store, installed), p.Path)
			compare.Values(t, "store", map[string]string{installed: string(good)}, r.files(t))
			left := filepath.Join(r.store, transfer.PartName(described(good))) // by a pull that was killed at its end
			must.Succeed(t, os.WriteFile(left, good, 0o600))
			again, err := r.pull(t.Context())
			compare.NoError(t, "second pull", err)
			compare.Values(t, "store", map[string]string{installed: string(good)}, r.files(t))
			compare.Equal(t, "installed by the second pull", false, again.Installed)
			compare.Equal(t, "requests for the file", 1, len(r.asked))
			compare.Empty(t, "log", r.log)

			other := bits.GBS(bits.Metadata(bits.Interface, bits.AFU), []byte("other"))
			must.Succeed(t, os.WriteFile(p.Path, other, 0o644))
			compare.Error(t, "pull over another file", "--force replaces it", compare.ErrorOf(r.pull(t.Context())))
			compare.Values(t, "store", map[string]string{installed: string(other)}, r.files(t))
			compare.NoError(t, "pull with force", compare.ErrorOf(r.pullWith(t.Context(), reference, transfer.Options{Force: true})))
			compare.Values(t, "store", map[string]string{installed: string(good)}, r.files(t))
		})
	}
}

// A connection that is cut at any point is continued from there, with and without support for ranges.
func TestPullContinues(t *testing.T) {
	for _, ranges := range []bool{true, false} {
		reg, cuts := newRegistry(t), 0
		reg.serve = func(w http.ResponseWriter, req *http.Request) bool {
			if !strings.Contains(req.URL.Path, "/blobs/") || cuts == 10 {
				return false
			}
			from := 0
			if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-", &from); err == nil && ranges {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(good)-1, len(good)))
				w.WriteHeader(http.StatusPartialContent)
			}
			cuts++
			w.Write(good[from : len(good)/11*cuts])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		reg.run(t, true, func(t *testing.T, r *rig) {
			compare.NoError(t, "pull", compare.ErrorOf(r.pull(t.Context())))
			compare.Equal(t, "cuts", 10, cuts)
			compare.Equal(t, "lines of the log", 10, len(r.log))
			compare.Values(t, "store", map[string]string{installed: string(good)}, r.files(t))
		})
	}
}

// half serves the first half of a file, and then calls then.
func half(then func(r *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	return blobs(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(good)))
		w.Write(good[:len(good)/2])
		w.(http.Flusher).Flush()
		then(req)
	})
}

// An interrupted pull is continued by the next one. If its file is damaged, the next pull starts again.
func TestPullInterrupted(t *testing.T) {
	for name, damage := range map[string]func(text []byte) []byte{
		"intact": func(text []byte) []byte { return text },
		"zeros":  func(text []byte) []byte { clear(text[100:]); return text },
		"longer": func(text []byte) []byte { return append(text, good...) },
	} {
		reg := newRegistry(t)
		reg.run(t, true, func(t *testing.T, r *rig) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reg.serve = half(func(req *http.Request) { cancel(); <-req.Context().Done() })
			_, err := r.pull(ctx)
			compare.Error(t, name+": interrupted pull", "the next pull continues there", err)
			part := filepath.Join(r.store, transfer.PartName(described(good)))
			text := must.Value(os.ReadFile(part))(t)
			compare.Equal(t, name+": bytes in "+part, len(good)/2, len(text))
			must.Succeed(t, os.WriteFile(part, damage(text), 0o600))
			must.Succeed(t, os.WriteFile(filepath.Join(r.store, ".pull-other.gbs"), nil, 0o600))

			reg.serve = nil
			compare.NoError(t, name+": next pull", compare.ErrorOf(r.pull(t.Context())))
			compare.Values(t, name+": store", map[string]string{installed: string(good)}, r.files(t))
			continued := reg.asked[len(reg.asked)-1] == fmt.Sprintf("bytes=%d-", len(good)/2)
			compare.Equal(t, name+": continued", name == "intact", continued)
		})
	}
}

// If a registry or a proxy disappears in the middle of a file, a pull tries five times. The next pull continues.
func TestPullGone(t *testing.T) {
	for _, lost := range []error{
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "proxyconnect", Err: syscall.ECONNREFUSED},
		errors.New("Bad Gateway"), // of net/http, if a proxy refuses CONNECT
	} {
		reg := newRegistry(t)
		reg.run(t, true, func(t *testing.T, r *rig) {
			gone := false
			r.DialWith(func(ctx context.Context, _, _ string) (net.Conn, error) {
				if gone {
					return nil, lost
				}
				return r.dial(ctx)
			})
			reg.serve = half(func(*http.Request) { gone = true; panic(http.ErrAbortHandler) })
			want := fmt.Sprintf("%s (%d of %d bytes are in ", lost, len(good)/2, len(good))
			compare.Error(t, "pull", want, compare.ErrorOf(r.pull(t.Context())))
			compare.Equal(t, "lines of the log", 4, len(r.log))
			gone, reg.serve, r.log = false, nil, nil
			compare.NoError(t, "next pull", compare.ErrorOf(r.pull(t.Context())))
			gone = true
			compare.Error(t, "pull from a registry that is gone", lost.Error(), compare.ErrorOf(r.pull(t.Context())))
			compare.Empty(t, "log", r.log)
		})
	}
}

// A pull that is interrupted while it installs does not download the file again.
func TestInstallInterrupted(t *testing.T) {
	reg := newRegistry(t)
	reg.run(t, true, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r.Progress = func(done, total int64) {
			if done == total {
				cancel()
			}
		}
		compare.Error(t, "interrupted pull", "the next pull continues there", compare.ErrorOf(r.pull(ctx)))
		ctx, cancel = context.WithCancel(t.Context())
		r.Progress = func(_, _ int64) {}
		_, err := r.pullWith(ctx, reference, transfer.Options{Ready: func() error { cancel(); return ctx.Err() }})
		compare.Error(t, "pull that was not ready", "the next pull continues there", err)
		_, err = r.pullWith(t.Context(), reference, transfer.Options{Ready: func() error { return errors.New("not allowed") }})
		compare.Error(t, "pull that is not allowed", "not allowed", err)
		compare.Empty(t, "store", r.files(t))
		compare.NoError(t, "next pull", compare.ErrorOf(r.pull(t.Context())))
		compare.Equal(t, "requests for the file", 2, len(r.asked))
		compare.Values(t, "store", map[string]string{installed: string(good)}, r.files(t))
	})
}

// If a registry answers a request for the rest of a file with something else, the pull fails, and leaves nothing
// behind.
func TestPullRangeLies(t *testing.T) {
	rest := fmt.Sprintf("bytes %d-", len(good)/2)
	for _, test := range []struct {
		name   string
		status int
		header string // Content-Range
		body   []byte
		want   string
	}{
		{"another range", http.StatusPartialContent, "bytes 0-9/10", good, "the registry answers 206"},
		{"no range", http.StatusPartialContent, "", good, "the registry answers 206"},
		{"other bytes", http.StatusPartialContent, rest, good, "file: found digest sha256:"},
		{"no bytes", http.StatusPartialContent, rest, nil, fmt.Sprintf("file: found %d bytes, want %d", len(good)/2, len(good))},
		{"a shorter file", http.StatusOK, "", good[:10], fmt.Sprintf("file: found 10 bytes, want more than %d", len(good)/2)},
		{"another file", http.StatusOK, "", make([]byte, len(good)), "file: found digest sha256:"},
		{"no such range", http.StatusRequestedRangeNotSatisfiable, "", nil, "the registry answers 416"},
	} {
		reg := newRegistry(t)
		reg.serve = half(func(*http.Request) {
			reg.serve = func(w http.ResponseWriter, req *http.Request) bool {
				w.Header().Set("Content-Range", test.header)
				w.WriteHeader(test.status)
				w.Write(test.body)
				return true
			}
			panic(http.ErrAbortHandler)
		})
		reg.run(t, true, func(t *testing.T, r *rig) {
			compare.Error(t, test.name, test.want, compare.ErrorOf(r.pull(t.Context())))
			compare.Empty(t, test.name+": store", r.files(t))
			compare.Equal(t, test.name+": requests for the file", 2, len(r.asked))
		})
	}
}

// A connection on which nothing is transferred is given up after 30 s, wherever it stalls.
func TestPullStalls(t *testing.T) {
	hang := func(req *http.Request) { <-req.Context().Done() }
	for name, test := range map[string]struct {
		serve func(http.ResponseWriter, *http.Request) bool
		keeps bool
	}{
		"no answer": {func(_ http.ResponseWriter, req *http.Request) bool { hang(req); return true }, false},
		"half a manifest": {func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", described(good).File.String())
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte("{"))
			w.(http.Flusher).Flush()
			hang(req)
			return true
		}, false},
		"half a file": {half(hang), true},
		"token server": {func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodPost {
				io.Copy(io.Discard, req.Body)
				hang(req)
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://example.com/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}, false},
	} {
		reg := newRegistry(t)
		reg.serve = test.serve
		reg.run(t, true, func(t *testing.T, r *rig) {
			r.Credential = auth.StaticCredential("example.com", auth.Credential{RefreshToken: "secret"})
			began := time.Now()
			_, err := r.pull(t.Context())
			compare.Error(t, name, "example.com: found no byte for 30s, want an answer", err)
			if took := time.Since(began); took < 150*time.Second || took > 180*time.Second {
				t.Errorf("%s: gave up after %s, want five attempts of 30 s", name, took)
			}
			compare.Equal(t, name+": keeps a part", test.keeps, len(r.files(t)) == 1)
		})
	}
}

// A slow registry does not count as stalled. --timeout ends the pull.
func TestPullDrips(t *testing.T) {
	reg := newRegistry(t)
	reg.serve = blobs(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(good)))
		for i := range good {
			w.Write(good[i : i+1])
			w.(http.Flusher).Flush()
			if !backoff.Wait(req.Context(), 29*time.Second) {
				return
			}
		}
	})
	reg.run(t, true, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, fmt.Errorf("not done after 1h (--timeout)"))
		defer cancel()
		compare.Error(t, "pull", "not done after 1h (--timeout)", compare.ErrorOf(r.pull(ctx)))
		compare.Equal(t, "connections for the file", 1, len(reg.asked))
	})
}

// Two pulls of one file wait for each other.
func TestPullsAtOnce(t *testing.T) {
	reg := newRegistry(t)
	reg.run(t, true, func(t *testing.T, r *rig) {
		entered, leave := make(chan struct{}), make(chan struct{})
		reg.serve = half(func(*http.Request) { close(entered); <-leave; panic(http.ErrAbortHandler) })
		first := make(chan error)
		go func() { first <- compare.ErrorOf(r.pull(t.Context())) }()
		<-entered
		reg.serve = nil
		client := *r.Client
		other := &rig{registry: reg, store: r.store, Client: &client}
		other.Log = func(text string) {
			other.log = append(other.log, text)
			close(leave)
		}
		p, err := other.pull(t.Context())
		compare.NoError(t, "first pull", <-first)
		compare.NoError(t, "second pull", err)
		compare.Equal(t, "installed by the second pull", false, p.Installed)
		compare.Values(t, "log of the second pull", []string{"waiting for another pull of this file into " + r.store}, other.log)
	})
}

// Credentials are sent to the registry, and to nobody else.
func TestCredentials(t *testing.T) {
	password := auth.StaticCredential("example.com", auth.Credential{Username: "user", Password: "secret"})
	for _, test := range []struct {
		name, challenge, want string
		dialed                []string
	}{
		{"basic", `Basic realm="x"`, "", []string{"example.com:443"}},
		{"token server on the registry", `Bearer realm="https://example.com/token",service="x"`, "", []string{"example.com:443"}},
		{"token server elsewhere", `Bearer realm="https://192.0.2.1/token",service="x"`, "192.0.2.1: found a token server or an upload in another domain", []string{"example.com:443"}},
		{"token server without TLS", `Bearer realm="http://example.com/token",service="x"`, "uses http but registry was contacted over https", []string{"example.com:443"}},
		{"no known scheme", `Negotiate`, "the registry answers 401 Unauthorized, want credentials for example.com that allow this", []string{"example.com:443"}},
	} {
		reg := newRegistry(t)
		leaked := ""
		reg.serve = func(w http.ResponseWriter, req *http.Request) bool {
			sent := req.Header.Get("Authorization")
			switch {
			case req.Host != "example.com": // the storage of the registry
				leaked += sent
				return false
			case req.URL.Path == "/token" && sent == "Basic dXNlcjpzZWNyZXQ=":
				w.Write([]byte(`{"token": "T"}`))
			case sent != "Bearer T" && !(sent == "Basic dXNlcjpzZWNyZXQ=" && test.name == "basic"):
				w.Header().Set("WWW-Authenticate", test.challenge)
				w.WriteHeader(http.StatusUnauthorized)
			case strings.Contains(req.URL.Path, "/blobs/"):
				http.Redirect(w, req, "https://127.0.0.1"+req.URL.Path, http.StatusTemporaryRedirect)
			default:
				return false
			}
			return true
		}
		reg.run(t, false, func(t *testing.T, r *rig) {
			r.Credential = password
			compare.Outcome(t, test.name, test.want, compare.ErrorOf(r.pull(t.Context())))
			compare.Equal(t, test.name+": sent elsewhere", "", leaked)
			if test.want == "" {
				test.dialed = append(test.dialed, "127.0.0.1:443")
			}
			compare.Values(t, test.name+": addresses", test.dialed, reg.dialed)
			if test.name == "basic" {
				r.Credential = nil
				compare.Error(t, "no credentials", "docker login example.com", compare.ErrorOf(r.pull(t.Context())))
			}
		})
	}
}

func TestSameDomain(t *testing.T) {
	for _, test := range []struct {
		host, registry string
		want           bool
	}{
		{"registry.example.com", "registry.example.com", true}, {"Auth.example.com", "registry.example.com", true}, {"example.com", "registry.example.com", true},
		{"auth.example.com", "example.com", true}, {"a.b.example.com", "registry.example.com", true},
		{"evil.com", "example.com", false}, {"evil-example.com", "registry.example.com", false}, {"registry.example.com.evil.com", "registry.example.com", false},
		{"com", "example.com", false}, {"", "localhost", false}, {"other", "localhost", false}, {"10.0.0.2", "10.0.0.1", false}, {"0.0.1", "10.0.0.1", false},
	} {
		compare.Equal(t, test.host+" for "+test.registry, test.want, transfer.SameDomain(test.host, test.registry))
	}
}

// A pull waits only for another pull of the same file, until its context ends. Unless it is told otherwise, it removes
// what other pulls have left, but not if they are running. RemoveParts does the same.
func TestParts(t *testing.T) {
	reg := newRegistry(t)
	reg.run(t, true, func(t *testing.T, r *rig) {
		running, left := filepath.Join(r.store, ".pull-running.gbs"), filepath.Join(r.store, ".pull-left.gbs")
		must.Succeed(t, os.WriteFile(left, nil, 0o600))
		dir := must.Value(privatedir.OpenDir(r.store, false))(t)
		defer dir.Close()
		lock := must.Value(privatedir.TryLock(dir, filepath.Base(running), privatedir.Exclusive))(t)
		compare.NoError(t, "pull that leaves parts", compare.ErrorOf(r.pullWith(t.Context(), reference, transfer.Options{KeepParts: true})))
		want := map[string]string{installed: string(good), ".pull-running.gbs": "", ".pull-left.gbs": ""}
		compare.Values(t, "store", want, r.files(t))
		compare.NoError(t, "pull", compare.ErrorOf(r.pull(t.Context())))
		delete(want, ".pull-left.gbs")
		compare.Values(t, "store", want, r.files(t))
		must.Succeed(t, os.WriteFile(left, nil, 0o600), transfer.RemoveParts(programming.Store(r.store), "", filepath.Base(left)))
		must.Value(os.Stat(left))(t)
		must.Succeed(t, transfer.RemoveParts(programming.Store(r.store)))
		compare.Values(t, "store", want, r.files(t))
		compare.Empty(t, "log", r.log)
		must.Succeed(t, lock.Release(), transfer.RemoveParts(programming.Store(r.store)))
		delete(want, ".pull-running.gbs")
		compare.Values(t, "store", want, r.files(t))

		lock = must.Value(privatedir.TryLock(dir, transfer.PartName(described(good)), privatedir.Exclusive))(t)
		defer lock.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		compare.Error(t, "pull of the same file", "held by another process", compare.ErrorOf(r.pull(ctx)))
	})
}

// A manifest that announces the file of another bitstream cannot change what the pull of this other bitstream downloads
// at the same time.
func TestPullsOfOneFile(t *testing.T) {
	theirs := described(good)
	theirs.AFUID = bits.OtherAFU
	hostile := must.Value(theirs.Manifest("x"))(t)
	forged := slices.Clone(good)
	copy(forged[len(forged)/4:], "other bits")
	half := len(good) / 2
	reg := newRegistry(t)
	reg.run(t, true, func(t *testing.T, r *rig) {
		entered, leave := make(chan struct{}), make(chan struct{})
		reg.serve = func(w http.ResponseWriter, req *http.Request) bool {
			evil, blob := strings.HasPrefix(req.URL.Path, "/v2/fpga/evil/"), strings.Contains(req.URL.Path, "/blobs/")
			switch {
			case evil && !blob:
				serveManifest(w, hostile)
			case evil && req.Header.Get("Range") != "": // makes the client start again
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-", half))
				w.WriteHeader(http.StatusPartialContent)
				w.Write(make([]byte, len(good)-half))
			case evil:
				w.Write(forged[:half])
				w.(http.Flusher).Flush()
				close(leave)
				<-req.Context().Done()
			case blob:
				w.Write(good[:half])
				w.(http.Flusher).Flush()
				close(entered)
				<-leave
				w.Write(good[half:])
			default:
				return false
			}
			return true
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			<-entered
			_, err := r.pullWith(ctx, "example.com/fpga/evil:1.0", transfer.Options{KeepParts: true})
			ended <- err
		}()
		compare.NoError(t, "pull", compare.ErrorOf(r.pullWith(t.Context(), reference, transfer.Options{KeepParts: true})))
		cancel()
		<-ended
		compare.Equal(t, "the file is the one with the digest", true, r.files(t)[installed] == string(good))
	})
}

// Resolve returns what the manifest announces, and downloads nothing. A pull by its digest gets the same.
func TestResolve(t *testing.T) {
	reg := newRegistry(t)
	reg.run(t, true, func(t *testing.T, r *rig) {
		ref := must.Value(transfer.ParseReference(reference))(t)
		d, manifest, err := r.Resolve(t.Context(), ref)
		compare.NoError(t, "Resolve", err)
		compare.Equal(t, "description", described(good), d)
		compare.Equal(t, "digest", digest.FromBytes(reg.manifest), manifest)
		compare.Equal(t, "requests for the file", 0, len(reg.asked))
		reg.blobs = map[digest.Digest][]byte{manifest: reg.manifest}
		reg.manifest = []byte("{}") // the tag has moved
		compare.NoError(t, "pull by digest", compare.ErrorOf(r.pullWith(t.Context(), "example.com/fpga/nlb@"+manifest.String(), transfer.Options{})))
		compare.Values(t, "store", map[string]string{installed: string(good)}, r.files(t))
		_, _, err = r.Resolve(t.Context(), ref)
		compare.Error(t, "Resolve of another manifest", "manifest: found", err)
	})
}
