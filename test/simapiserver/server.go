package simapiserver

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
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
	"time"
)

// Server is the stand-in. Create it with [Start].
type Server struct {
	http *httptest.Server

	mu          sync.Mutex
	certificate *tls.Certificate // nil means httptest's certificate
	token       string
	fault       Fault
	requests    []string

	version int // resourceVersion of the latest change
	nodes   map[string]node
	changed chan struct{} // closed on the next change
	hangup  chan struct{} // closed by HangUp, to end all watches

	pods         map[string]string // UID by NAMESPACE/NAME
	events       []Event           // in order of creation
	ending, gone map[string]bool   // namespaces that are being deleted, and namespaces that have been deleted
	deaf         bool
}

// Fault responds to a request in the server's place. If it returns false, the server responds itself.
type Fault func(http.ResponseWriter, *http.Request) bool

// node is a node's state as of the latest change.
type node struct {
	kind        string // ADDED, MODIFIED or DELETED
	version     int
	uid         string
	annotations map[string]string
	conditions  []Condition
}

// Start starts a server on the listener or, if that is nil, on a free local port.
func Start(listener net.Listener) *Server {
	s := &Server{
		token: "token-1", version: 1000, nodes: map[string]node{}, changed: make(chan struct{}), hangup: make(chan struct{}),
		pods: map[string]string{}, ending: map[string]bool{}, gone: map[string]bool{},
	}
	s.http = httptest.NewUnstartedServer(s)
	if listener != nil {
		s.http.Listener.Close()
		s.http.Listener = listener
	}
	s.http.EnableHTTP2 = true
	// Disable session tickets, so that the server doesn't write while a client may also be writing. Both would block if
	// unbuffered pipes were used instead of TCP.
	s.http.TLS = &tls.Config{SessionTicketsDisabled: true, GetConfigForClient: s.config}
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.StartTLS()
	return s
}

// config returns the TLS configuration for a connection, or nil for the server's default.
func (s *Server) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.certificate == nil {
		return nil, nil
	}
	config := s.http.TLS.Clone()
	config.Certificates = []tls.Certificate{*s.certificate}
	return config, nil
}

// Close closes all connections and waits for the handlers to return.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Address returns the server's address as host:port.
func (s *Server) Address() string { return s.http.Listener.Addr().String() }

// CA returns the server's initial certificate in PEM, which clients must trust.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Kubeconfig returns a kubeconfig for the server, with the token token-1.
func (s *Server) Kubeconfig() []byte {
	return fmt.Appendf(nil, `current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://%s", certificate-authority-data: %s}}]
users: [{name: u, user: {token: token-1}}]
`, s.Address(), base64.StdEncoding.EncodeToString(s.CA()))
}

// UseCertificate changes the certificate for new connections, and closes existing ones, as a restart would.
func (s *Server) UseCertificate(c tls.Certificate) {
	s.edit(func() { s.certificate = &c })
	s.http.CloseClientConnections()
}

// UseToken sets the token. The server doesn't accept any other.
func (s *Server) UseToken(token string) { s.edit(func() { s.token = token }) }

// UseFault makes the server call f for each request that has a valid token. f may be nil.
func (s *Server) UseFault(f Fault) { s.edit(func() { s.fault = f }) }

// Set creates or changes a node. A node with a different UID replaces the previous one.
func (s *Server) Set(name, uid string, annotations map[string]string) {
	s.edit(func() {
		kind := "MODIFIED"
		if old, ok := s.nodes[name]; !ok || old.kind == "DELETED" || old.uid != uid {
			kind = "ADDED"
		}
		n := node{kind: kind, uid: uid, annotations: maps.Clone(annotations)}
		if kind == "MODIFIED" {
			n.conditions = s.nodes[name].conditions
		}
		s.change(name, n)
	})
}

// Delete removes a node.
func (s *Server) Delete(name string) {
	s.edit(func() {
		n := s.nodes[name]
		n.kind = "DELETED"
		s.change(name, n)
	})
}

// change records a change to a node. The caller must hold mu.
func (s *Server) change(name string, n node) {
	s.version++
	n.version = s.version
	s.nodes[name] = n
	close(s.changed)
	s.changed = make(chan struct{})
}

// HangUp ends all watches without an error, as API servers do from time to time.
func (s *Server) HangUp() {
	s.edit(func() {
		close(s.hangup)
		s.hangup = make(chan struct{})
	})
}

// Requests returns the requests that had a valid token: "list" and "watch" for nodes, and "METHOD
// NAMESPACE/KIND[/NAME]" or "METHOD NODE/status" for everything else.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// edit calls change with mu held.
func (s *Server) edit(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	within, namespaced := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
	of, status := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/status")
	request := "list"
	switch {
	case namespaced:
		request = r.Method + " " + within
	case status:
		request = r.Method + " " + of + "/status"
	case r.FormValue("watch") != "":
		request = "watch"
	}
	s.mu.Lock()
	authorized, fault := r.Header.Get("Authorization") == "Bearer "+s.token, s.fault
	if authorized {
		s.requests = append(s.requests, request)
	}
	s.mu.Unlock()
	name, selected := strings.CutPrefix(r.FormValue("fieldSelector"), "metadata.name=")
	switch {
	case !authorized:
		Refuse(w, http.StatusUnauthorized, "Unauthorized")
	case fault != nil && fault(w, r):
	case namespaced:
		s.namespaced(w, r, within)
	case status && r.Method == http.MethodPatch:
		s.patchStatus(w, r, of)
	case r.Method != http.MethodGet || r.URL.Path != "/api/v1/nodes" || !selected:
		Refuse(w, http.StatusForbidden, "nodes is forbidden: want a fieldSelector metadata.name")
	case !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"):
		Refuse(w, http.StatusNotAcceptable, "want as=PartialObjectMetadata")
	case request == "watch":
		s.watch(w, r, name)
	default:
		s.list(w, name)
	}
}

// list responds to a request to list the node with the given name.
func (s *Server) list(w http.ResponseWriter, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []fields{}
	if n, ok := s.nodes[name]; ok && n.kind != "DELETED" {
		items = append(items, n.object(name))
	}
	write(w, http.StatusOK, fields{
		"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
		"metadata": fields{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	})
}

// watch sends the node's latest change, if it is newer than the requested resourceVersion, and then all later changes.
// It may combine changes that come in quick succession.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, name string) {
	from, _ := strconv.Atoi(r.FormValue("resourceVersion"))
	seconds, _ := strconv.Atoi(r.FormValue("timeoutSeconds"))
	over := time.NewTimer(time.Duration(seconds) * time.Second)
	defer over.Stop()
	w.Header().Set("Content-Type", "application/json;stream=watch")
	for {
		s.mu.Lock()
		changed, hangup, n := s.changed, s.hangup, s.nodes[name]
		s.mu.Unlock()
		if n.version > from {
			_ = json.NewEncoder(w).Encode(fields{"type": n.kind, "object": n.object(name)})
			from = n.version
		}
		_ = http.NewResponseController(w).Flush() // fails if the client has closed the connection
		select {
		case <-changed:
		case <-hangup:
			return
		case <-over.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

type fields map[string]any

// object returns the node as PartialObjectMetadata.
func (n node) object(name string) fields {
	return fields{
		"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
		"metadata": fields{"name": name, "uid": n.uid, "resourceVersion": strconv.Itoa(n.version),
			"annotations": n.annotations},
	}
}

// Refuse responds to a request with a Status object.
func Refuse(w http.ResponseWriter, code int, message string) {
	write(w, code, fields{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
}

func write(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // fails if the client has closed the connection
}
