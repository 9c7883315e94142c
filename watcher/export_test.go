package watcher

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/pulse"
)

// Parsed is a uevent as text.
type Parsed struct {
	Action, Devpath string            // from the header
	Env             map[string]string // the extracted variables that aren't empty
	Seqnum          uint64
}

// Extracted lists the variables that parse extracts.
var Extracted = []string{"ACTION", "DEVPATH", "SUBSYSTEM", "SEQNUM", "DEVNAME", "ERROR_EVENT", "PCI_SLOT_NAME"}

// Parse parses a message without checking that it is complete.
func Parse(raw []byte) (Parsed, error) {
	ev, err := parse(raw)
	if err != nil {
		return Parsed{}, err
	}
	p := Parsed{Action: string(ev.action), Devpath: string(ev.devpath), Env: map[string]string{}, Seqnum: ev.seqnum()}
	values := [][]byte{
		ev.env.action, ev.env.devpath, ev.env.subsystem, ev.env.seqnum, ev.env.devname, ev.env.errorEvent, ev.env.slotName,
	}
	for i, v := range values {
		if len(v) > 0 {
			p.Env[Extracted[i]] = string(v)
		}
	}
	return p, nil
}

// Judge returns a func that parses, checks and filters a kernel message the same way the source does, but without
// logging.
func Judge(subsystems ...string) func(raw []byte) (Hint, bool, error) {
	f, m := newFilter(subsystems), metrics.New("test")
	return func(raw []byte) (Hint, bool, error) {
		ev, err := parse(raw)
		if err == nil {
			err = ev.check()
		}
		if err != nil {
			return Hint{}, false, err
		}
		h, ok := f.match(&ev)
		if ok {
			m.UEvent(ev.env.subsystem, ev.action)
		} else {
			m.UEventIgnored()
		}
		return h, ok, nil
	}
}

// Receive passes a message to the uevent source as if it had arrived on the socket. pid is the one from the
// credentials.
func (w *Watcher) Receive(raw []byte, truncated bool, pid uint32, at time.Time, hint func(Hint)) {
	w.uevents().take(message{
		data: raw, truncated: truncated,
		sender: sender{groups: kernelGroup, known: true, pid: pid},
	}, at, hint)
}

func FromKernel(from unix.Sockaddr, oob []byte) bool { return newSender(from, oob).kernel() }

// ShrinkReceiveBuffer sets the socket's buffer size. It must be called before Run.
func (w *Watcher) ShrinkReceiveBuffer(bytes int) error {
	return w.control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes) })
}

// SetPatience sets how long a source can be busy before it counts as stuck. It must be called before Run.
func (w *Watcher) SetPatience(d time.Duration) {
	for _, k := range w.sources {
		k.pulse = pulse.New(d)
	}
}

// UEventCloser returns a func that closes the socket while the source is reading from it. UEventCloser must be called
// before Run, but the func can be called at any time.
func (w *Watcher) UEventCloser() func() error { return w.uevents().conn.file.Close }

func (w *Watcher) UEventFlags() (fd, fl int, err error) {
	err = w.control(func(n int) error {
		if fd, err = unix.FcntlInt(uintptr(n), syscall.F_GETFD, 0); err != nil {
			return err
		}
		fl, err = unix.FcntlInt(uintptr(n), syscall.F_GETFL, 0)
		return err
	})
	return fd, fl, err
}

func (w *Watcher) control(f func(fd int) error) error {
	var inner error
	if err := w.uevents().conn.raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

func (w *Watcher) uevents() *uevents { return w.sources[0].src.(*uevents) }

func NewLimiter() func(time.Time) int { return new(limiter).count }
