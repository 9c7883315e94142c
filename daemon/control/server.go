package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Answers holds the functions that the server calls to answer requests.
type Answers struct {
	State func(context.Context) State
	// Changed returns a channel that is closed when the devices, the cordons or the settings have changed.
	Changed  func() <-chan struct{}
	Cordon   func(ctx context.Context, devices []string, by, why string, during time.Duration) ([]cordon.Cordon, error)
	Uncordon func(ctx context.Context, devices []string, by string) ([]cordon.Cordon, error)
	Forget   func(ctx context.Context, card, by string) (ledger.Missing, error)
}

const (
	// readWithin is how long a client may take to read a line from /watch.
	readWithin = 5 * time.Second
	// holdersInterval is the maximum time between calls to [Answers.State] for a /watch client. State must be called
	// regularly, because [Answers.Changed] doesn't report when holders change.
	holdersInterval = time.Second
	// mostWatchers is the maximum number of /watch clients. Each may be a process in the daemon's container that takes
	// up 4 MiB or more, and if the container runs out of memory, the kernel kills all of its processes, including the
	// daemon.
	mostWatchers = 16
)

// Run serves the socket at path until ctx is done, and then returns nil.
func Run(ctx context.Context, path string, answers Answers, log *zap.Logger) error {
	log = log.Named("control")
	return run(ctx, path, func(ctx context.Context) (net.Listener, error) { return listen(ctx, path, log) }, answers, log)
}

func run(ctx context.Context, path string, listen func(context.Context) (net.Listener, error), answers Answers, log *zap.Logger) error {
	return httpd.Keep(ctx, httpd.Address{
		Listen:  listen,
		Handler: func(net.Addr) http.Handler { return answers.handler() },
		Served:  func(net.Addr) { log.Info("socket served", logevent.ControlServed, logevent.Socket(path)) },
		Failed: func(err error, retry time.Duration) {
			log.Warn("socket not served, trying again", logevent.ControlFailed,
				logevent.Socket(path), logevent.Retry(retry), logevent.Err(fmt.Errorf("--socket: %w", err)))
		},
		Log: log,
	})
}

func (a Answers) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, a.State(r.Context()))
	})
	var all watchers
	mux.HandleFunc("GET /watch", func(w http.ResponseWriter, r *http.Request) {
		ctx, done := all.add(r.Context())
		defer done()
		a.watch(w, r.WithContext(ctx))
	})
	mux.HandleFunc("POST /cordon", func(w http.ResponseWriter, r *http.Request) {
		patiently(w)
		q := r.URL.Query()
		during, err := time.ParseDuration(q.Get("for"))
		if err != nil || during < 0 {
			http.Error(w, fmt.Sprintf("for: found %q, want a duration such as 2h, or 0s", q.Get("for")), http.StatusBadRequest)
			return
		}
		made, err := a.Cordon(r.Context(), q["device"], q.Get("by"), q.Get("why"), during)
		write(w, made, err)
	})
	mux.HandleFunc("POST /uncordon", func(w http.ResponseWriter, r *http.Request) {
		patiently(w)
		q := r.URL.Query()
		removed, err := a.Uncordon(r.Context(), q["device"], q.Get("by"))
		write(w, removed, err)
	})
	mux.HandleFunc("POST /forget", func(w http.ResponseWriter, r *http.Request) {
		patiently(w)
		q := r.URL.Query()
		forgotten, err := a.Forget(r.Context(), q.Get("card"), q.Get("by"))
		write(w, forgotten, err)
	})
	return mux
}

// patiently extends a response's write deadline to the time for which [Client] waits. Otherwise, the client would
// report a failure if the disk is so slow that a cordon takes longer than the server's usual deadline.
func patiently(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWithin))
}

// watchers holds the /watch clients, oldest first.
type watchers struct {
	mu  sync.Mutex
	all []*context.CancelFunc
}

// add adds a client. It returns a context that is canceled when the client must be disconnected, and a function to call
// when the client has left. If there are too many clients, add disconnects the oldest one, which is most likely a
// command that someone left running in a pod.
func (w *watchers) add(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == mostWatchers {
		(*w.all[0])()
		w.all = w.all[1:]
	}
	w.all = append(w.all, &cancel)
	return ctx, func() {
		cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(w.all, func(c *context.CancelFunc) bool { return c == &cancel })
	}
}

// watch writes the state as a line immediately, and again after each change, until the client closes the connection. A
// slow client may miss states, but never the newest one.
func (a Answers) watch(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/jsonl")
	var last []byte
	for {
		changed := a.Changed()
		line, err := json.Marshal(a.State(r.Context()))
		if err != nil || r.Context().Err() != nil {
			return
		}
		if !bytes.Equal(line, last) {
			last = line
			if control.SetWriteDeadline(time.Now().Add(readWithin)) != nil {
				return
			}
			if _, err := w.Write(append(line, '\n')); err != nil || control.Flush() != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-time.After(holdersInterval):
		}
	}
}

func write(w http.ResponseWriter, answer any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	writeJSON(w, answer)
}

func writeJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // an error means that the client has disconnected
}
