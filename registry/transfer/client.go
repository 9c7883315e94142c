package transfer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/registry/artifact"
)

// Client transfers bitstreams for a command. Don't change its fields while a method is running.
type Client struct {
	Roots      *x509.CertPool      // trusted CA certificates; nil means the system's
	PlainHTTP  bool                // use HTTP for the registry
	Credential auth.CredentialFunc // nil means no credentials
	UserAgent  string
	Stall      time.Duration           // a connection is closed after this much time without any data
	Log        func(text string)       // logs a line about something that takes time
	Progress   func(done, total int64) // called repeatedly while a file is being transferred

	dial func(ctx context.Context, network, address string) (net.Conn, error) // nil except in tests
}

// DockerCredentials returns the credentials in Docker's configuration. Using them may run helper programs. If there is
// no configuration, there are no credentials.
func DockerCredentials() (auth.CredentialFunc, error) {
	if os.Getenv("DOCKER_CONFIG") == "" && os.Getenv("HOME") == "" { // as in a service
		return nil, nil
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return credentials.Credential(store), nil
}

// ParseReference parses an artifact's name, such as registry.example.com/fpga/nlb:1.0. If it has neither a tag nor a
// digest, the tag is latest.
func ParseReference(text string) (registry.Reference, error) {
	ref, err := registry.ParseReference(text)
	if err != nil {
		return registry.Reference{}, fmt.Errorf("found %q, want REGISTRY/NAME, REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST in lower case", text)
	}
	ref.Reference = ref.ReferenceOrDefault()
	return ref, nil
}

// repository returns the repository that a reference is in.
func (c *Client) repository(ref registry.Reference) *remote.Repository {
	host := (&url.URL{Host: ref.Host()}).Hostname()
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: c.dial,
		TLSClientConfig: &tls.Config{RootCAs: c.Roots}, ForceAttemptHTTP2: true,
		// The digest covers the bytes as sent, so don't ask for compression.
		DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		// A process that runs for months makes many pulls, so don't leave connections open. Keep buffers small, because
		// they fill up if the disk is slow.
		IdleConnTimeout: 30 * time.Second, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20},
	}
	return &remote.Repository{
		Reference: ref, PlainHTTP: c.PlainHTTP, MaxMetadataBytes: artifact.MaxManifest, ReferrerListMaxPages: 5,
		ManifestMediaTypes: []string{ocispec.MediaTypeImageManifest},
		Client: &auth.Client{
			Client:     &http.Client{Transport: transport{base, host, c.PlainHTTP, c.Stall}},
			Header:     http.Header{"User-Agent": {c.UserAgent}},
			Credential: c.Credential, Cache: auth.NewCache(),
		},
	}
}

// manifest reads a manifest of up to [artifact.MaxManifest] bytes, and returns it with its descriptor.
func (c *Client) manifest(ctx context.Context, repo *remote.Repository, reference string) (text []byte, desc ocispec.Descriptor, err error) {
	err = c.attempts(ctx, func() (bool, error) {
		var r io.ReadCloser
		if desc, r, err = repo.Manifests().FetchReference(ctx, reference); err != nil {
			return false, err
		}
		defer r.Close()
		switch {
		case desc.MediaType != ocispec.MediaTypeImageManifest:
			return false, fmt.Errorf("manifest: found media type %q, want %q: the reference names no bitstream", desc.MediaType, ocispec.MediaTypeImageManifest)
		case desc.Size > artifact.MaxManifest:
			return false, fmt.Errorf("manifest: found %d bytes, want at most %d", desc.Size, artifact.MaxManifest)
		}
		text, err = content.ReadAll(r, desc)
		return false, err
	})
	return text, desc, err
}

// mostFailures is how many consecutive attempts can fail without progress before the client gives up.
const mostFailures = 5

// attempts calls f until it succeeds, ctx is done, or a retry wouldn't help. f reports whether it has made progress.
func (c *Client) attempts(ctx context.Context, f func() (progress bool, err error)) error {
	wait := backoff.Backoff{First: time.Second, Most: 10 * time.Second}
	failures, begun := 0, false
	for {
		progress, err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if progress {
			failures, begun = 0, true
			wait.Reset()
		}
		if failures++; failures == mostFailures || !temporary(err, begun) {
			return err
		}
		pause := wait.Next()
		c.Log(fmt.Sprintf("%v: trying again in %.0f s", plain(err), pause.Seconds()))
		if !backoff.Wait(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// temporary reports whether a retry may succeed. begun means that an earlier attempt made progress. If the registry or
// a proxy can't be reached at all, a retry makes sense only if begun is true.
func temporary(err error, begun bool) bool {
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		return answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout
	}
	if _, ok := errors.AsType[lost](err); ok {
		return true
	}
	if _, ok := errors.AsType[*url.Error](err); !ok {
		return false
	}
	if begun {
		return true // if a proxy refuses CONNECT, the error doesn't have a type
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op == "read" || op.Op == "write"
	}
	// HTTP/2's errors don't have exported types, so look at their text.
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "http2: ") || strings.Contains(err.Error(), "stream error: ")
}

// plain returns err without the request's URL, which is long, and without details that are only useful to programs.
func plain(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	answer, ok := errors.AsType[*errcode.ErrorResponse](err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("the registry answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	for _, e := range answer.Errors {
		text += ": " + e.Message
	}
	return errors.New(text)
}

// Explain adds advice for the user to one of the client's errors.
func Explain(ref registry.Reference, err error) error {
	status := 0
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		status = answer.StatusCode
	}
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return fmt.Errorf("%s: found none in the registry", ref)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("%s: found no credentials for %s, want some in Docker's configuration: docker login %[2]s", ref, ref.Registry)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%s: %w, want credentials for %s that allow this: docker login %[3]s", ref, plain(err), ref.Registry)
	case untrusted:
		return fmt.Errorf("%s: %w: --ca-file FILE names a certificate authority of your own", ref, plain(err))
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s: found http, want https: --plain-http allows http", ref)
	}
	return fmt.Errorf("%s: %w", ref, plain(err))
}
