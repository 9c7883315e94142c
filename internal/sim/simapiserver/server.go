package simapiserver

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Server is the stand-in. Make it with [Start].
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	version  int // resourceVersion of the newest change
	gone     int // history up to here is forgotten
	nodes    map[string]node
	history  []change
	changed  chan struct{} // closes at the next change
	hangup   chan struct{} // closes when all watches are to end
	token    string
	fault    Fault
	plain    bool
	requests []string
	core     core
}

// Fault answers a request in place of the server; false leaves it to the server.
type Fault func(http.ResponseWriter, *http.Request) bool

type node struct {
	uid         string
	annotations map[string]string
}

type change struct {
	version int
	kind    string // ADDED, MODIFIED, DELETED, BOOKMARK
	name    string
	node    node
}

// Start serves on the listener, or on a free local port when it is nil.
func Start(listener net.Listener) *Server { return start(listener, true) }

// StartHTTP1 is Start of a server that does not speak HTTP/2.
func StartHTTP1(listener net.Listener) *Server { return start(listener, false) }

func start(listener net.Listener, http2 bool) *Server {
	s := &Server{version: 1000, nodes: map[string]node{}, changed: make(chan struct{}), hangup: make(chan struct{}), token: "token-1"}
	s.http = httptest.NewUnstartedServer(s)
	if listener != nil {
		s.http.Listener.Close()
		s.http.Listener = listener
	}
	s.http.EnableHTTP2 = http2
	// Tickets are written while a client may be writing too: an unbuffered pipe in
	// place of TCP would block both.
	s.http.TLS = &tls.Config{SessionTicketsDisabled: true}
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.StartTLS()
	return s
}

// Close ends every connection and awaits the handlers.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Address is host:port.
func (s *Server) Address() string { return s.http.Listener.Addr().String() }

// CA is the certificate that clients must trust, in PEM.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// UseToken makes this the only token that is let in.
func (s *Server) UseToken(token string) { s.edit(func() { s.token = token }) }

// UseFault sends each request that has a good token to f first; nil: to none.
func (s *Server) UseFault(f Fault) { s.edit(func() { s.fault = f }) }

// UsePlain makes a server that does not know PartialObjectMetadata.
func (s *Server) UsePlain() { s.edit(func() { s.plain = true }) }

// Set makes or changes a node.
func (s *Server) Set(name, uid string, annotations map[string]string) {
	s.edit(func() {
		kind := "ADDED"
		if _, old := s.nodes[name]; old {
			kind = "MODIFIED"
		}
		s.nodes[name] = node{uid, maps.Clone(annotations)}
		s.note(kind, name, s.nodes[name])
	})
}

// Delete removes a node.
func (s *Server) Delete(name string) {
	s.edit(func() {
		s.note("DELETED", name, s.nodes[name])
		delete(s.nodes, name)
	})
}

// Heartbeat changes a node's status and nothing else.
func (s *Server) Heartbeat(name string) { s.edit(func() { s.note("MODIFIED", name, s.nodes[name]) }) }

// Bookmark tells every watch the newest resourceVersion, which another object has.
func (s *Server) Bookmark() { s.edit(func() { s.note("BOOKMARK", "", node{}) }) }

// Compact forgets the history: who comes back with an old resourceVersion hears
// that it is gone.
func (s *Server) Compact() {
	s.edit(func() {
		s.version++
		s.gone, s.history = s.version, nil
	})
}

// HangUp ends all watches in good order.
func (s *Server) HangUp() {
	s.edit(func() {
		close(s.hangup)
		s.hangup = make(chan struct{})
	})
}

// Requests are those that had a good token, as "list" or "watch RESOURCEVERSION"
// of nodes, and of all else as "METHOD NAMESPACE/KIND[/NAME]".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// said is a request in a few words.
func said(r *http.Request) string {
	if within, ok := strings.CutPrefix(r.URL.Path, namespaces); ok {
		return r.Method + " " + within
	}
	if r.FormValue("watch") != "" {
		return "watch " + r.FormValue("resourceVersion")
	}
	return "list"
}

func (s *Server) edit(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// note is called with the lock held.
func (s *Server) note(kind, name string, n node) {
	s.version++
	s.history = append(s.history, change{s.version, kind, name, n})
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	token, fault := s.token, s.fault
	if r.Header.Get("Authorization") == "Bearer "+token {
		s.requests = append(s.requests, said(r))
	}
	s.mu.Unlock()
	name, selected := strings.CutPrefix(r.FormValue("fieldSelector"), "metadata.name=")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		Refuse(w, http.StatusUnauthorized, "Unauthorized")
	case fault != nil && fault(w, r):
	case strings.HasPrefix(r.URL.Path, namespaces):
		s.namespaced(w, r)
	case r.Method != http.MethodGet || r.URL.Path != "/api/v1/nodes" || !selected:
		Refuse(w, http.StatusForbidden, "nodes is forbidden: only this one")
	case r.FormValue("watch") != "":
		s.watch(w, r, name)
	default:
		s.list(w, r, name)
	}
}

// Refuse answers with a Status object.
func Refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	write(w, status(code, message))
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // 0: from the beginning, as of the API server
	return n
}
