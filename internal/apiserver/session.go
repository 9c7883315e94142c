package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	requestWithin = 30 * time.Second // connect; handshake; the header of an answer; a whole list
	pingAfter     = 30 * time.Second // of silence: is the connection alive? As client-go
	pingWithin    = 15 * time.Second
	maxAnswer     = 4 << 20 // bytes of a list or an event; etcd holds objects up to 1.5 MiB
)

// session is one user's connections to the API server. It belongs to one
// goroutine, and nothing of it outlives its context.
type session struct {
	*Client
	ctx    context.Context
	made   material // of the transport
	client *http.Client
}

// close ends what idles; what does not, ends with the context.
func (s *session) close() {
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
}

// renew makes the transport, and makes it anew when a CA or certificate has
// changed on disk: connections that were let in with the old one are given up.
func (s *session) renew() error {
	now, err := s.access.material()
	if err != nil || s.client != nil && now.equal(s.made) {
		return err
	}
	config, err := s.access.tlsConfig(now)
	if err != nil {
		return err
	}
	s.close()
	s.made, s.client = now, &http.Client{
		// The API server sends nobody elsewhere, and the token is for it alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            s.connect,
			TLSClientConfig:        config,
			TLSHandshakeTimeout:    requestWithin,
			ResponseHeaderTimeout:  requestWithin,
			MaxResponseHeaderBytes: 64 << 10,
			IdleConnTimeout:        time.Minute,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWithin},
		},
	}
	return nil
}

// connect dials. The connection ends with the session: net/http keeps that of a
// cancelled HTTP/2 request for another.
func (s *session) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return bound{conn, context.AfterFunc(s.ctx, func() { conn.Close() })}, nil
}

type bound struct {
	net.Conn
	stop func() bool
}

func (b bound) Close() error {
	b.stop()
	return b.Conn.Close()
}

// call is one request.
type call struct {
	method string
	path   string
	query  url.Values
	accept string
	kind   string // of the body, its Content-Type
	body   []byte
}

// get asks for a path, as do.
func (s *session) get(ctx context.Context, path string, query url.Values, accept string) (*http.Response, error) {
	return s.do(ctx, call{method: http.MethodGet, path: path, query: query, accept: accept})
}

// do makes a request. A nil error is an answer 200 or 201, whose body is the
// caller's to close. Other answers are a [*refusal].
func (s *session) do(ctx context.Context, c call) (*http.Response, error) {
	if err := s.renew(); err != nil {
		return nil, err
	}
	token, err := s.access.bearer()
	if err != nil {
		return nil, err
	}
	target := s.access.server.JoinPath(c.path)
	target.RawQuery = c.query.Encode()
	request, err := http.NewRequestWithContext(ctx, c.method, target.String(), bytes.NewReader(c.body))
	if err != nil {
		return nil, fmt.Errorf("API server %s: %w", s.Address(), err)
	}
	request.Header.Set("Accept", c.accept)
	if c.kind != "" {
		request.Header.Set("Content-Type", c.kind)
	}
	if s.agent != "" {
		request.Header.Set("User-Agent", s.agent)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		var long *url.Error // repeats the whole query
		if errors.As(err, &long) {
			err = long.Err
		}
		return nil, fmt.Errorf("API server %s: %w", s.Address(), err)
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusCreated {
		defer answer.Body.Close()
		return nil, refusedBy(answer)
	}
	return answer, nil
}

// readAll reads an answer of at most [maxAnswer] bytes.
func readAll(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxAnswer+1))
	if err == nil && len(data) > maxAnswer {
		err = errTooLarge
	}
	return data, err
}
