package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine is the state that all stories share.
type machine struct {
	host    *host
	uevents *uevents
	opens   *opens
	kernel  int        // non-blocking file descriptor for /dev/kmsg
	kept    []*os.File // device nodes that stay open, at most until the machine ends
}

func newMachine() (*machine, error) {
	if err := mount(); err != nil {
		return nil, err
	}
	m := &machine{}
	var err error
	if m.host, err = dialHost("/dev/ttyS1"); err != nil {
		return nil, err
	}
	if err := loopbackUp(); err != nil {
		return m, fmt.Errorf("loopback: %w", err)
	}
	if m.uevents, err = listenUEvents(); err != nil {
		return m, fmt.Errorf("uevents: %w", err)
	}
	if m.opens, err = watchOpens("/dev"); err != nil {
		return m, fmt.Errorf("inotify: %w", err)
	}
	m.kernel, err = unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	return m, err
}

func mount() error {
	for _, mount := range []struct{ kind, dir, options string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", "mode=0755"},
		{"cgroup2", "/sys/fs/cgroup", ""},
		{"tmpfs", "/tmp", "mode=1777"}, {"tmpfs", "/run", "mode=0755"}, {"tmpfs", "/out", "mode=0755"},
	} {
		if err := os.MkdirAll(mount.dir, 0o755); err != nil {
			return err
		}
		// EBUSY means that the file system is already mounted. /dev is mounted by the kernel itself.
		if err := unix.Mount(mount.kind, mount.dir, mount.kind, 0, mount.options); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", mount.dir, err)
		}
	}
	return nil
}

// loopbackUp brings up lo in this thread's network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// clear restores the state that every story starts in: all drivers loaded, and no cards.
func (m *machine) clear(ctx context.Context) error {
	plugged, err := m.host.ask("cards")
	if err != nil {
		return err
	}
	if err := rmmod([]string{boardSensors}); err != nil && !errors.Is(err, unix.ENOENT) { // a story that failed may have left the module loaded
		return err
	}
	for _, card := range strings.Fields(plugged) {
		if _, err := m.host.ask("unplug " + card); err != nil {
			return err
		}
	}
	if err := insmod(allModules); err != nil {
		return err
	}
	if err := insmodFurther(); err != nil {
		return err
	}
	if err := m.opens.watchVFIO(""); err != nil {
		return err
	}
	if hasXOCL() {
		if err := m.opens.watchXRT(); err != nil {
			return err
		}
	}
	m.uevents.settle(ctx)
	if lines := m.kernelErrors(); len(lines) > 0 {
		return fmt.Errorf("kernel log: found errors, want none:\n%s", strings.Join(lines, "\n"))
	}
	return nil
}

// kernelErrors returns those lines that have been added to the kernel log since the last call and indicate an error.
func (m *machine) kernelErrors() []string {
	var found []string
	buffer := make([]byte, 8192)
	for {
		// Each read returns one record. It fails with EAGAIN after the last record, and with EPIPE if records have been
		// overwritten.
		n, err := unix.Read(m.kernel, buffer)
		if errors.Is(err, unix.EPIPE) {
			continue
		}
		if err != nil || n == 0 {
			return found
		}
		_, text, _ := strings.Cut(string(buffer[:n]), ";")
		line, _, _ := strings.Cut(text, "\n")
		// Ignore the warnings about two bugs in xocl: it copies beyond the end of a field, and it unmaps an address
		// that it has never mapped.
		if strings.Contains(line, "WARNING:") && (strings.Contains(line, "[xocl]") || strings.Contains(line, "iounmap+")) {
			continue
		}
		for _, word := range []string{"BUG:", "Oops", "WARNING:", "general protection", "hung task"} {
			if strings.Contains(line, word) {
				found = append(found, line)
				break
			}
		}
	}
}

// sendOutput sends a directory to the host over the third serial port.
func (m *machine) sendOutput(dir string) (err error) {
	port, err := os.OpenFile("/dev/ttyS2", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, port.Close()) }()
	if err := raw(port); err != nil {
		return err
	}
	zipped := gzip.NewWriter(port)
	archive := tar.NewWriter(zipped)
	if err := archive.AddFS(os.DirFS(dir)); err != nil {
		return err
	}
	// Wait until the port's buffer has drained (tcdrain(3)), because powering off would discard the rest.
	return errors.Join(archive.Close(), zipped.Close(), unix.IoctlSetInt(int(port.Fd()), unix.TCSBRK, 1))
}

func (m *machine) release() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown kernel"
	}
	return "Linux " + strings.TrimSpace(string(text))
}

func (m *machine) uptime() time.Duration {
	var info unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &info) // every kernel has this clock
	return time.Duration(info.Nano())
}

// text returns a sysfs file's content, or "" if the file can't be read.
func text(elements ...string) string {
	content, _ := os.ReadFile(filepath.Join(elements...))
	return strings.TrimSpace(string(content))
}
