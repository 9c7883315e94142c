package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
)

const (
	requestWithin = 30 * time.Second // time limit for connecting, for a response's header, and for an entire list
	maxAnswer     = 4 << 20          // maximum size of a response or an event in bytes; etcd stores objects of up to 1.5 MiB
)

// errTooLarge means that a response or event is larger than [maxAnswer] bytes.
var errTooLarge = fmt.Errorf("larger than %d bytes", maxAnswer)

// errFiles means that a configuration file can't be used.
var errFiles = errors.New("token, CA or client certificate")

// transport returns a client-go transport. The transport rereads the token file after a minute and the CA file after
// five, loads the client certificate for each handshake, and pings an HTTP/2 connection after 30 s of silence.
func (c *Client) transport(dial connrotation.DialFunc) (http.RoundTripper, error) {
	config := c.config
	if err := checkCertificate(config); err != nil {
		return nil, fmt.Errorf("API server %s: %w: %w", c.server, errFiles, err)
	}
	// client-go caches transports by a key that includes the DialHolder, so use a new one to make it reread the files.
	config.DialHolder = &transport.DialHolder{Dial: dial}
	made, err := transport.New(&config)
	if err == nil && config.TLS.CAFile != "" && len(config.TLS.CAData) == 0 {
		err = fmt.Errorf("%s: found an empty file, want certificates of a CA", config.TLS.CAFile)
	}
	if err != nil {
		return nil, fmt.Errorf("API server %s: %w: %w", c.server, errFiles, err)
	}
	return made, nil
}

// checkCertificate returns an error if the client certificate doesn't match its key. Without this check, client-go's
// transport would log the mismatch many times a minute.
func checkCertificate(config transport.Config) error {
	made, err := transport.TLSConfigFor(&config)
	if err == nil && made != nil && made.GetClientCertificate != nil {
		_, err = made.GetClientCertificate(nil)
	}
	return err
}

// session holds the connections of a FollowNode call or of a Writer. It belongs to one goroutine.
type session struct {
	*Client
	transport http.RoundTripper // nil until created
	conns     *connrotation.Dialer
}

// close closes the connections. The next request creates a new transport and new connections.
func (s *session) close() {
	s.transport = nil
	if s.conns != nil {
		s.conns.CloseAll()
	}
}

// call is a request.
type call struct {
	verb     string // the verb of the RBAC rule that allows the request
	resource string // the rule's resource
	path     string
	query    url.Values
	body     []byte
	apply    bool // the patch is a server-side apply instead of a merge patch
	whole    bool // the response contains the object, not just its metadata
}

// methods maps verbs to HTTP methods.
var methods = map[string]string{
	"list": http.MethodGet, "watch": http.MethodGet, "get": http.MethodGet,
	"create": http.MethodPost, "patch": http.MethodPatch,
}

// do makes a request. If the status is 200 or 201, it returns the response, whose body the caller must close. For any
// other status, the error is a [*refusal]. do doesn't follow redirects, because the token would be sent to the target.
func (s *session) do(ctx context.Context, c call) (*http.Response, error) {
	if s.transport == nil {
		s.conns = connrotation.NewDialer(s.dial)
		var err error
		if s.transport, err = s.Client.transport(s.conns.DialContext); err != nil {
			return nil, err
		}
	}
	target := s.server.JoinPath(c.path)
	target.RawQuery = c.query.Encode()
	request, err := http.NewRequestWithContext(ctx, methods[c.verb], target.String(), bytes.NewReader(c.body))
	if err != nil {
		return nil, fmt.Errorf("API server %s: %w", s.server, err)
	}
	kind := "PartialObjectMetadata"
	switch c.verb {
	case "list":
		kind = "PartialObjectMetadataList"
	case "create":
		request.Header.Set("Content-Type", "application/json")
	case "patch":
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if c.apply {
		request.Header.Set("Content-Type", "application/apply-patch+yaml") // JSON is YAML
	}
	request.Header.Set("Accept", "application/json;as="+kind+";g=meta.k8s.io;v=v1")
	if c.whole {
		request.Header.Set("Accept", "application/json")
	}
	answer, err := s.transport.RoundTrip(request)
	if err != nil {
		s.close() // the CA or the client certificate may have been replaced
		return nil, fmt.Errorf("API server %s: %w", s.server, err)
	}
	if answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusCreated {
		return answer, nil
	}
	defer answer.Body.Close()
	refused := readRefusal(answer, c)
	if answer.StatusCode == http.StatusUnauthorized {
		s.close() // the token may have been replaced
	}
	return nil, refused
}

// ask makes a request with a time limit. If to is non-nil, the JSON object in the response is decoded into it.
func (s *session) ask(ctx context.Context, within time.Duration, c call, to any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answer, err := s.do(ctx, c)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if to == nil {
		_, _ = io.CopyN(io.Discard, answer.Body, maxRefusal) // so that the connection can be reused
		return nil
	}
	if err := newDecoder(answer.Body).decode(to); err != nil {
		return fmt.Errorf("API server %s: answer: %w", s.server, err)
	}
	return nil
}

// decoder reads a sequence of JSON objects of at most [maxAnswer] bytes each.
type decoder struct {
	limit *io.LimitedReader
	json  *json.Decoder
}

func newDecoder(from io.Reader) decoder {
	limit := &io.LimitedReader{R: from}
	return decoder{limit, json.NewDecoder(limit)}
}

func (d decoder) decode(to any) error {
	d.limit.N = maxAnswer
	err := d.json.Decode(to)
	if err != nil && d.limit.N == 0 {
		return errTooLarge
	}
	return err
}

// isMalformed reports whether err means that something other than the expected JSON object was received.
func isMalformed(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || kind || errors.Is(err, errTooLarge)
}
