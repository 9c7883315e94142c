package ui

import (
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/docs"
)

//go:embed page
var files embed.FS

const (
	pace       = 250 * time.Millisecond // minimum time between events
	alive      = 20 * time.Second       // maximum time without an event
	readWithin = 10 * time.Second       // how long a client can take to read an event or send a request
)

// headers are sent with every response. A browser that honours them runs only the page's own scripts and loads only the
// page's own files, even if a node managed to get HTML into the page.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-store",
}

// Serve serves a board's page at http://ADDRESS/TOKEN/ until ctx is done, and then returns nil. The machine's other
// users can connect too, so Serve doesn't wait long for any client.
func Serve(ctx context.Context, listener net.Listener, b *Board, token string) error {
	server := &http.Server{
		Handler: Handler(b, listener.Addr().String(), token), ReadTimeout: readWithin, WriteTimeout: readWithin, MaxHeaderBytes: 8 << 10,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server.SetKeepAlivesEnabled(false)
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler serves a board's page at http://HOST/TOKEN/.
func Handler(b *Board, host, token string) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil { // can't happen, because the name is constant
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(page))
	mux.HandleFunc("/events", b.serveEvents)
	mux.HandleFunc("/node", func(w http.ResponseWriter, r *http.Request) {
		details := b.details(r.URL.Query().Get("key"))
		if details == nil {
			http.Error(w, "found no answer of this node", http.StatusNotFound)
			return
		}
		writeJSON(w, details)
	})
	mux.HandleFunc("/explain", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, docs.Explain(r.URL.Query().Get("reason")))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		first, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		switch {
		case r.Method != http.MethodGet:
			http.Error(w, "this page can only be read", http.StatusMethodNotAllowed)
		case r.Host != host:
			http.Error(w, fmt.Sprintf("Host: want %s", host), http.StatusForbidden)
		case origin != "" && origin != "http://"+host, site != "" && site != "same-origin" && site != "none":
			http.Error(w, "another site may not read this page", http.StatusForbidden)
		case !ok || subtle.ConstantTimeCompare([]byte(first), []byte(token)) != 1:
			http.Error(w, "the token is missing or wrong: open the URL that kubectl accelerator ui has printed", http.StatusForbidden)
		default:
			r.URL.Path, r.URL.RawPath = "/"+rest, ""
			mux.ServeHTTP(w, r)
		}
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error means that the page has been closed
}

// serveEvents sends all nodes and then each change to the page, until the page is closed.
func (b *Board) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	b.look(1)
	defer b.look(-1)
	control := http.NewResponseController(w)
	ctx := r.Context()
	for version := 0; ; {
		change, next, stale := b.since(version)
		text := []byte(":\n\n") // a comment
		if version == 0 || next != version {
			line, err := json.Marshal(change)
			if err != nil {
				return
			}
			text = append(append([]byte("data: "), line...), "\n\n"...)
		}
		version = next
		_ = control.SetWriteDeadline(time.Now().Add(readWithin)) // fails only in tests
		if _, err := w.Write(text); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pace):
		}
		select {
		case <-ctx.Done():
			return
		case <-stale:
		case <-time.After(alive):
		}
	}
}
