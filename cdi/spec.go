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

// diskTimeout is how long a caller waits for the disk. The daemon must be able to exit within two seconds.
const diskTimeout = time.Second

// Device is a device that can be given to containers.
type Device struct {
	ID    string   // "3b:00.0": a valid CDI device name
	Nodes []string // names below the device root, in this order; a device without any nodes or mounts is omitted
	// SharedNodes lists nodes that several devices share. A container with several of these devices gets each node only
	// once, because the runtime replaces a node that has the same path.
	SharedNodes []string
	Mounts      []string // absolute paths of host files that containers get at the same paths
	Files       []File   // host files that containers get read-only
	Env         []string // NAME=VALUE, set in each container that gets the device; may be empty
	Hook        *Hook    // nil if there is none
}

// File is a host file that containers can read. Both paths are absolute and clean.
type File struct {
	HostPath, Path string // on the host and in the container
}

// Hook is a program that the runtime runs as root on the host, after creating a container's namespaces and before
// starting the container. If the hook fails, the container doesn't start.
type Hook struct {
	Path string   // on the host
	Args []string // including the program's name
}

// Spec is one CDI spec file. Create it with [Open].
type Spec struct {
	kind        string // "fpga.intel.com/fpga"
	hostDevRoot string // absolute
	files       files
	busy        chan struct{}                     // holds an element while a call is accessing the disk
	names       atomic.Pointer[map[string]string] // id → qualified name of each device in the file

	// The following fields belong to the call whose element is in busy.
	lock   *lock
	closed bool
}

// Open locks the spec file for kind in dir, creating the directory if needed, and removes temporary files left by
// killed daemons. An existing spec is left in place until the first Write, because containers may restart before that.
//
// kind is VENDOR/CLASS, e.g. "fpga.intel.com/fpga". hostDevRoot is the absolute path of the device node directory as
// the container runtime sees it.
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

// Write makes the file contain exactly the given devices, sorted by id. It checks the current content first, so it
// leaves a correct file alone, but restores a file that another process has changed or removed. If no device has any
// nodes or mounts, Write removes the file.
//
// If no valid spec can be made from these devices, Write returns an error without changing anything. If the file can't
// be written (because the disk is full or read-only), the next Write tries again. Until then, the old file stays if
// each device in it has the same nodes, variables and hook as in devices. Otherwise, Write removes the file, so that no
// container gets another device's nodes or starts without its hook. If that fails too, the error says so.
func (s *Spec) Write(devices []Device) error {
	wanted, err := render(s.kind, s.hostDevRoot, devices)
	if err != nil {
		return fmt.Errorf("CDI spec %s not changed: %w", s.files.spec, err)
	}
	return s.do(func() error { return s.settle(wanted) })
}

// Name returns the name by which the runtime finds a device, e.g. "fpga.intel.com/fpga=3b:00.0". ok is false if the
// file, as last written, doesn't contain the device.
func (s *Spec) Name(id string) (name string, ok bool) {
	name, ok = (*s.names.Load())[id]
	return name, ok
}

// Close removes the file unless another daemon on this node is using it. After Close, Name returns false and Write
// returns [fs.ErrClosed]. Closing a Spec twice has no effect.
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

// settle writes the desired file and updates the names that [Spec.Name] returns. If the file can't be written and the
// old file is stale, settle removes the old file. That frees space on a full disk, so settle then tries once more.
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

// put takes the lock, writes the file unless it already has the desired content, and updates the names that [Spec.Name]
// returns.
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

// do waits until all earlier calls have finished, and then calls work, which accesses the disk. It waits for no longer
// than diskTimeout, and returns an error if work hasn't returned by then.
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

// oneLine returns the text of joined errors on a single line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
