package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
)

// patience is how long a caller waits for the disk. The daemon promises to end
// within two seconds.
const patience = time.Second

// Device is one device that containers can be given.
type Device struct {
	ID    string   // "3b:00.0": a valid CDI device name
	Nodes []string // names below the device root, in the order of the file; a device without any is left out
	Hook  *Hook    // nil: none
}

// Hook is a program that the runtime runs as root on the host, after it has made a container's
// namespaces and before it starts the container. If the program fails, the container does not
// start.
type Hook struct {
	Path string   // on the host
	Args []string // with the name of the program
}

// Spec is one CDI spec file. Make it with [Open].
type Spec struct {
	kind        string // "fpga.intel.com/fpga"
	hostDevRoot string // absolute
	files       files
	turn        chan struct{}                     // full while somebody is at the disk
	names       atomic.Pointer[map[string]string] // id → qualified name, as the file says

	// Whoever has the turn owns these.
	lock   *lock
	wanted *content // nil before the first Write
	closed bool
}

// Open claims the spec file of a kind in a directory, which is made if it is not
// there, and removes what killed writers left. A spec that is there stays until
// the first Write: containers may start again meanwhile.
//
// kind is VENDOR/CLASS, e.g. "fpga.intel.com/fpga". hostDevRoot is the absolute
// path of the directory of device nodes as the container runtime sees it.
func Open(dir, kind, hostDevRoot string) (*Spec, error) {
	vendor, class := parser.ParseQualifier(kind)
	if err := errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class)); err != nil {
		return nil, fmt.Errorf("CDI kind %q is not VENDOR/CLASS: %s", kind, oneLine(err))
	}
	if !filepath.IsAbs(hostDevRoot) {
		return nil, fmt.Errorf("host device root %q is not an absolute path", hostDevRoot)
	}
	s := &Spec{
		kind:        kind,
		hostDevRoot: hostDevRoot,
		files:       files{dir: dir, name: cdi.GenerateSpecName(vendor, class), last: &checked{}},
		turn:        make(chan struct{}, 1),
	}
	s.names.Store(&map[string]string{})
	err := s.do(func() error {
		if err := s.hold(); err != nil {
			return fmt.Errorf("CDI directory %s: %w%s", dir, err, needs)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Write makes the file say exactly these devices, in the order of their ids. A
// file that says so already is not written again; where no device has nodes
// there is no file.
//
// If these devices make no valid spec, Write returns an error and changes nothing. If the
// file cannot be written (a full or read-only disk), the next Write or Ensure tries again.
// Until then the file stays as it was if each device in it has the nodes and the hook that it
// has here. Otherwise the file is removed, so that no container gets the nodes of another
// device, or starts without its hook. The error names a file that cannot be removed either.
func (s *Spec) Write(devices []Device) error {
	wanted, err := render(s.kind, s.hostDevRoot, devices)
	if err != nil {
		return fmt.Errorf("CDI spec %s stays as it was: %w", s.files.spec(), err)
	}
	return s.do(func() error {
		err := s.settle(wanted)
		if !errors.Is(err, errInvalid) {
			s.wanted = wanted
		}
		return err
	})
}

// Ensure puts the file back if it is not there or does not say what the last
// Write said. It is cheap: the file is read and compared. Before the first Write
// it does nothing.
func (s *Spec) Ensure() error {
	return s.do(func() error {
		if s.wanted == nil {
			return nil
		}
		return s.settle(s.wanted)
	})
}

// Name returns the name by which the runtime finds a device, e.g.
// "fpga.intel.com/fpga=3b:00.0". It is not ok if the file, as it was last
// written, does not have the device.
func (s *Spec) Name(id string) (name string, ok bool) {
	name, ok = (*s.names.Load())[id]
	return name, ok
}

// Close removes the file unless another instance on this node lives. No name is
// known any more and nothing can be written. A second Close does nothing.
func (s *Spec) Close() error {
	err := s.do(func() error {
		s.closed = true
		s.names.Store(&map[string]string{})
		return s.leave()
	})
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// settle writes the wanted file, and makes the names follow the file. If the file cannot
// be written and the old one is stale, it removes the old one. That makes room on a full
// disk, so it tries the new file once more.
func (s *Spec) settle(wanted *content) error {
	path := s.files.spec()
	err := s.put(wanted)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errInvalid), errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("CDI spec %s stays as it was: %w", path, err)
	}
	if s.files.stale(wanted) {
		if err := s.files.remove(); err != nil {
			return fmt.Errorf("CDI spec %s is out of date and can be neither written nor removed, containers that start may get the nodes of other devices, or devices that are not programmed: %w%s",
				path, unnamed(err), needs)
		}
		s.names.Store(&map[string]string{})
		if err = s.put(wanted); err == nil {
			return nil
		}
	}
	if _, gone := os.Lstat(path); errors.Is(gone, fs.ErrNotExist) {
		return fmt.Errorf("CDI spec %s is missing, containers with its devices do not start: %w%s", path, err, needs)
	}
	return fmt.Errorf("CDI spec %s stays as it was: %w%s", path, err, needs)
}

// put writes the file if its content is not the wanted one.
func (s *Spec) put(wanted *content) error {
	if err := s.hold(); err != nil {
		return err
	}
	if err := s.files.put(wanted); err != nil {
		return err
	}
	s.names.Store(&wanted.names)
	return nil
}

// do runs what touches the disk, one at a time, and waits for it with patience.
func (s *Spec) do(work func() error) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s.turn <- struct{}{}:
	case <-timer.C:
		return fmt.Errorf("CDI directory %s: an earlier call has not come back", s.files.dir)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.turn }()
		if s.closed {
			done <- fmt.Errorf("CDI spec %s: %w", s.files.spec(), fs.ErrClosed)
			return
		}
		done <- work()
	}()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("CDI directory %s: no answer within %v: the disk hangs, or a process holds %s", s.files.dir, patience, s.files.lock())
	}
}

// oneLine makes a line of errors that were joined.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
