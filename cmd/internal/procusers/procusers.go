package procusers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Proc is a procfs mount.
type Proc struct {
	Root     string
	Patience time.Duration // maximum time to search one process
}

// Process is a process that has one of the devices or files open or mapped.
type Process struct {
	PID     int
	Command string // the name that the process gave itself: up to 15 arbitrary bytes
	// Group is the last element of the process's longest control group path. It includes the container's ID or the name
	// of the service's unit. It is "" if unknown.
	Group   string
	Devices []sysfs.DeviceNumber // in the order of Find's argument
	Files   []File               // in the order of Find's arguments
}

// File identifies a sysfs file, such as a BAR. Each network namespace has its own sysfs with its own device number, but
// the inode numbers are the same in all of them. The size rules out files on other file systems that happen to have the
// same inode number.
type File struct{ Inode, Size uint64 }

// FileAt returns the file at path.
func FileAt(path string) (File, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		return File{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return File{st.Ino, uint64(st.Size)}, nil
}

// hostNamespace is where the link of the initial PID namespace points: PROC_PID_INIT_INO in include/linux/proc_ns.h.
const hostNamespace = "pid:[4026531836]"

// ErrConfined means that this process can't see all processes, but another one on the host might. Errors from
// [Proc.CheckAccess] wrap it.
var ErrConfined = errors.New("this process")

// CheckAccess returns an error if this process can't see all processes on the host.
func (p Proc) CheckAccess() error {
	namespace, err := os.Readlink(filepath.Join(p.Root, "self/ns/pid"))
	switch {
	case err != nil:
		return err
	case namespace != hostNamespace:
		return fmt.Errorf("%w is in a PID namespace of its own", ErrConfined)
	case os.Geteuid() != 0:
		return fmt.Errorf("%w is not root", ErrConfined)
	}
	return nil
}

// Find returns the processes that have one of these character devices or files open or mapped, sorted by PID. If it
// returns an error, some processes may be missing.
func (p Proc) Find(ctx context.Context, devices []sysfs.DeviceNumber, files ...File) ([]Process, error) {
	var found []Process
	var first error
	failed := 0
	searched := map[int]bool{}
	// New processes must be searched too, because children inherit their parent's files: the parent may have started
	// the child after being searched, or may have ended before it was searched.
	next := func() ([]int, error) {
		pids, err := numbers(p.Root)
		return slices.DeleteFunc(pids, func(pid int) bool { return searched[pid] }), err
	}
	pids, err := next()
	for ; len(pids) > 0; pids, err = next() {
		for _, pid := range pids {
			searched[pid] = true
			process, err := p.within(ctx, pid, devices, files)
			if len(process.Devices)+len(process.Files) > 0 {
				found = append(found, process)
			}
			if ctx.Err() != nil {
				return found, fmt.Errorf("not all processes could be searched: %w", context.Cause(ctx))
			}
			if err != nil {
				failed++
				if first == nil {
					first = fmt.Errorf("process %d: %w", pid, err)
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	switch {
	case err != nil:
		return found, err
	case failed > 1:
		return found, fmt.Errorf("%w (and %d other processes)", first, failed-1)
	default:
		return found, first
	}
}

// within searches one process for at most Patience.
func (p Proc) within(ctx context.Context, pid int, devices []sysfs.DeviceNumber, files []File) (Process, error) {
	type result struct {
		process Process
		err     error
	}
	done := make(chan result, 1)
	go func() {
		process, err := p.search(pid, devices, files)
		done <- result{process, err}
	}()
	patience := time.NewTimer(p.Patience)
	defer patience.Stop()
	select {
	case r := <-done:
		return r.process, r.err
	case <-patience.C:
		return Process{}, fmt.Errorf("the search of its files took longer than %s", p.Patience)
	case <-ctx.Done():
		return Process{}, ctx.Err()
	}
}

// search searches one process and returns the first error. If there was one, devices or files may be missing.
func (p Proc) search(pid int, devices []sysfs.DeviceNumber, files []File) (Process, error) {
	process := Process{PID: pid}
	dir := filepath.Join(p.Root, strconv.Itoa(pid))
	tids, err := numbers(dir + "/task")
	if err != nil {
		return process, unlessGone(err)
	}
	seen := found{devices: map[sysfs.DeviceNumber]bool{}, files: map[File]bool{}}
	mapped := false // the mappings have been searched; all threads share them
	for _, tid := range tids {
		// Although a listing of Root shows only processes, Root also has a directory for each thread.
		thread := filepath.Join(p.Root, strconv.Itoa(tid))
		_, threadErr := numbersOf(thread+"/fd", seen)
		if !mapped { // a first thread that ends before the others no longer has any mappings
			n, mapErr := numbersOf(thread+"/map_files", seen)
			mapped, threadErr = n > 0, cmp.Or(threadErr, mapErr)
		}
		// Ignore errors if the thread has just ended, because its links may then return EACCES.
		if _, ended := os.Lstat(thread); !errors.Is(ended, fs.ErrNotExist) {
			err = cmp.Or(err, threadErr)
		}
	}
	for _, d := range devices {
		if seen.devices[d] && !slices.Contains(process.Devices, d) {
			process.Devices = append(process.Devices, d)
		}
	}
	for _, f := range files {
		if seen.files[f] && !slices.Contains(process.Files, f) {
			process.Files = append(process.Files, f)
		}
	}
	if len(process.Devices)+len(process.Files) > 0 {
		process.Command = string(bytes.TrimSuffix(head(dir+"/comm"), []byte("\n")))
		process.Group = groupOf(head(dir + "/cgroup"))
	}
	return process, err
}

// found holds the devices and regular files of a process.
type found struct {
	devices map[sysfs.DeviceNumber]bool
	files   map[File]bool
}

// numbersOf adds the character devices and regular files that the links in dir lead to. It returns the number of links.
func numbersOf(dir string, seen found) (links int, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, unlessGone(err)
	}
	defer d.Close()
	for {
		names, listErr := d.Readdirnames(1024)
		links += len(names)
		for _, name := range names {
			statErr := seen.add(int(d.Fd()), name)
			if statErr = unlessGone(statErr); statErr != nil && err == nil {
				err = fmt.Errorf("%s/%s: %w", dir, name, statErr)
			}
		}
		if listErr != nil {
			if err == nil && !errors.Is(listErr, io.EOF) {
				err = unlessGone(listErr)
			}
			return links, err
		}
	}
}

// add adds the target of the link dir/name if it is a character device or a regular file. It doesn't request any
// attributes, so the kernel returns the type, numbers and size without asking a file server. This also avoids errors on
// FUSE file systems that deny access to root, where no device can be open anyway.
func (f found) add(dir int, name string) error {
	for {
		var st unix.Statx_t
		err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, 0, &st)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		switch {
		case err != nil:
		case st.Mode&unix.S_IFMT == unix.S_IFCHR:
			f.devices[sysfs.DeviceNumber{Major: st.Rdev_major, Minor: st.Rdev_minor}] = true
		case st.Mode&unix.S_IFMT == unix.S_IFREG:
			f.files[File{st.Ino, st.Size}] = true
		}
		return err
	}
}

// numbers returns the names in dir that are decimal numbers, in ascending order.
func numbers(dir string) ([]int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n > 0 {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, err
}

// unlessGone returns nil if err means that a process has ended or has closed a file. Otherwise it returns err.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// head returns the first bytes of a file that describes a process. It ignores errors, because the description is only
// for display.
func head(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 4<<10))
	return text
}

// groupOf returns the last element of the longest path in /proc/PID/cgroup, whose lines are ID:CONTROLLERS:PATH.
func groupOf(text []byte) string {
	var longest []byte
	for line := range bytes.Lines(text) {
		if parts := bytes.SplitN(bytes.TrimRight(line, "\n"), []byte(":"), 3); len(parts) == 3 && len(parts[2]) > len(longest) {
			longest = parts[2]
		}
	}
	if name := path.Base(string(longest)); len(longest) > 0 && name != "/" {
		return name
	}
	return ""
}
