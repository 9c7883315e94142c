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

// diskTimeout is how long a caller waits for the disk. The daemon must be able to end within two seconds.
const diskTimeout = time.Second

// Device is one device that containers can be given.
type Device struct {
	ID    string   // "3b:00.0": a valid CDI device name
	Nodes []string // names below the device root, in the order of the file; a device without nodes and mounts is left out
	// SharedNodes lists the names of nodes that several devices have. A container with several of these devices gets
	// each once: the runtime replaces a node of the same path.
	SharedNodes []string
	Mounts      []string // absolute paths of files on the host, which containers get at the same paths
	Files       []File   // files on the host that containers can only read
	Env         []string // NAME=VALUE, for each container with the device; may be empty
	Hook        *Hook    // nil: none
}

// File is a file that containers can read. Both paths are absolute and clean.
type File struct {
	HostPath, Path string // on the host, and in the container
}

// Hook is a program that the runtime runs as root on the host, after it has made a container's
// namespaces and before it starts the container. If the program fails, the container does not
// start.
type Hook struct {
	Path string   // on the host
	Args []string // with the name of the program
}

// Spec is one CDI spec file. Create it with [Open].
type Spec struct {
	kind        string // "fpga.intel.com/fpga"
	hostDevRoot string // absolute
	files       files
	busy        chan struct{}                     // has an element while a call accesses the disk
	names       atomic.Pointer[map[string]string] // id → qualified name of each device in the file

	// The call that has put the element into busy owns these.
	lock   *lock
	closed bool
}

// Open locks the spec file of a kind in a directory, which it creates if needed, and removes the temporary files of
// killed daemons. An existing spec stays until the first Write, because containers may restart before that.
//
// kind is VENDOR/CLASS, e.g. "fpga.intel.com/fpga". hostDevRoot is the absolute
// path of the directory of device nodes as the container runtime sees it.
func Open(dir, kind, hostDevRoot string) (*Spec, error) {
	vendor, class := parser.ParseQualifier(kind)
	if err := errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class)); err != nil {
		return nil, fmt.Errorf("CDI kind: found %q, want VENDOR/CLASS: %s", kind, oneLine(err))
	}
	if !filepath.IsAbs(hostDevRoot) {
		return nil, fmt.Errorf("host device root: found %q, want an absolute path", hostDevRoot)
	}
	s := &Spec{
		kind:        kind,
		hostDevRoot: hostDevRoot,
		files:       filesOf(dir, cdi.GenerateSpecName(vendor, class)),
		busy:        make(chan struct{}, 1),
	}
	s.names.Store(&map[string]string{})
	err := s.do(func() error {
		if err := s.ensureLock(); err != nil {
			return fmt.Errorf("CDI directory %s: %w%s", dir, err, usableDir)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Write replaces the file by one with exactly these devices, sorted by id. It compares the content of the file first.
// So it restores a file that another process has changed or removed, and does not write a file that has this content
// already. If no device has nodes, the file is removed.
//
// If no valid spec can be made of these devices, Write returns an error and changes nothing. If the file cannot be
// written (a full or read-only disk), the next Write tries again. Until then the old file stays if each device in it
// has the same nodes, variables and hook as in devices. Otherwise the file is removed, so that no container gets the
// nodes of another device, or starts without its hook. If the file cannot be removed either, the error names it.
func (s *Spec) Write(devices []Device) error {
	wanted, err := render(s.kind, s.hostDevRoot, devices)
	if err != nil {
		return fmt.Errorf("CDI spec %s not changed: %w", s.files.spec, err)
	}
	return s.do(func() error { return s.settle(wanted) })
}

// Name returns the name by which the runtime finds a device, e.g. "fpga.intel.com/fpga=3b:00.0", and reports whether
// the device is in the file that was last written.
func (s *Spec) Name(id string) (name string, ok bool) {
	name, ok = (*s.names.Load())[id]
	return name, ok
}

// Close removes the file unless another daemon on this node uses it. After Close, Name returns
// no name, and Write returns [fs.ErrClosed]. A second Close does nothing.
func (s *Spec) Close() error {
	err := s.do(func() error {
		s.closed = true
		s.names.Store(&map[string]string{})
		return s.releaseLock()
	})
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// settle writes the wanted file and sets the names to those in the file. If the file cannot be
// written and the old one is stale, it removes the old one. That frees space on a full disk, so
// it tries the new file once more.
func (s *Spec) settle(wanted *content) error {
	path := s.files.spec
	err := s.put(wanted)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errInvalid), errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("CDI spec %s not changed: %w", path, err)
	}
	if s.files.stale(wanted) {
		if err := s.files.remove(); err != nil {
			return fmt.Errorf("CDI spec %s is out of date and can be neither written nor removed, "+
				"containers that start may get the nodes of other devices, or devices that are not programmed: %w%s",
				path, withoutPath(err), usableDir)
		}
		s.names.Store(&map[string]string{})
		if err = s.put(wanted); err == nil {
			return nil
		}
	}
	if _, gone := os.Lstat(path); errors.Is(gone, fs.ErrNotExist) {
		return fmt.Errorf("CDI spec %s is missing, containers with its devices do not start: %w%s", path, err, usableDir)
	}
	return fmt.Errorf("CDI spec %s not changed: %w%s", path, err, usableDir)
}

// put writes the file if its content is not the wanted one.
func (s *Spec) put(wanted *content) error {
	if err := s.ensureLock(); err != nil {
		return err
	}
	if err := s.files.put(wanted); err != nil {
		return err
	}
	s.names.Store(&wanted.names)
	return nil
}

// do runs work, which accesses the disk, after earlier work has returned. It blocks until work has
// returned or diskTimeout is over.
func (s *Spec) do(work func() error) error {
	timer := time.NewTimer(diskTimeout)
	defer timer.Stop()
	select {
	case s.busy <- struct{}{}:
	case <-timer.C:
		return fmt.Errorf("CDI directory %s: an earlier call has not returned", s.files.dir)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.busy }()
		if s.closed {
			done <- fmt.Errorf("CDI spec %s: %w", s.files.spec, fs.ErrClosed)
			return
		}
		done <- work()
	}()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("CDI directory %s: no answer within %v: the disk hangs, or another process has locked %s",
			s.files.dir, diskTimeout, s.files.lock)
	}
}

// oneLine returns the text of joined errors on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
