// Command workload runs in the tests' containers.
//
//	workload          the sandbox container of a pod: reaps processes, and waits for a signal
//	workload hold     prints a [report] as a line of JSON, and waits for a signal
//	workload exit     prints a [report], and exits
//	workload pause    prints a [report], and exits after 20 s
//	workload stay     prints a [report], and ignores SIGTERM
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// report describes the devices that a container has access to.
type report struct {
	Env   map[string]string // variables whose names start with ACCELERATOR_
	Nodes map[string]string // MAJOR:MINOR, by name below /dev
	Opens []string          // MAJOR:MINOR of the simulated devices that the container is allowed to open
	Files map[string]string // each mounted BAR file's original text, by path
}

// answerAt is the offset in a BAR file where the container writes ACCELERATOR_DEVICES.
const answerAt = 2048

func main() {
	if len(os.Args) < 2 {
		wait()
		return
	}
	r, err := inspect()
	if err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(1)
	}
	switch os.Args[1] {
	case "hold":
		wait()
	case "pause":
		time.Sleep(20 * time.Second)
	case "stay":
		signal.Ignore(syscall.SIGTERM)
		for {
			_ = syscall.Pause() // an empty select would be a deadlock
		}
	}
}

// wait waits for SIGTERM or SIGINT, and reaps orphaned processes in the meantime.
func wait() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

// inspect returns a report about this container.
func inspect() (report, error) {
	r := report{Env: map[string]string{}, Nodes: map[string]string{}, Opens: []string{}}
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "ACCELERATOR_") {
			r.Env[name] = value
		}
	}
	for _, pattern := range []string{"dfl-*", "vfio/*", "dri/*", "xfpga/*", "xclmgmt*"} {
		paths, _ := filepath.Glob("/dev/" + pattern)
		for _, path := range paths {
			var stat syscall.Stat_t
			if err := syscall.Stat(path, &stat); err != nil {
				return r, fmt.Errorf("%s: %w", path, err)
			}
			r.Nodes[strings.TrimPrefix(path, "/dev/")] = fmt.Sprintf("%d:%d", stat.Rdev>>8, stat.Rdev&0xff)
		}
	}
	for major := 120; major <= 124; major++ { // ports, FMEs, groups, vfio/vfio, render nodes
		first := 0
		if major == 124 {
			first = 128
		}
		for minor := first; minor < first+8; minor++ {
			if err := try(major, minor); err == nil {
				r.Opens = append(r.Opens, fmt.Sprintf("%d:%d", major, minor))
			} else if !errors.Is(err, syscall.EPERM) {
				return r, err
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return r, err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(filepath.Base(fields[4]), "resource") {
			if r.Files == nil {
				r.Files = map[string]string{}
			}
			if r.Files[fields[4]], err = exchange(fields[4], r.Env["ACCELERATOR_DEVICES"]); err != nil {
				return r, fmt.Errorf("%s: %w", fields[4], err)
			}
		}
	}
	return r, nil
}

// exchange maps the first page of a BAR file, as programs for AWS cards do. It returns the text at the start of the
// page, and writes answer to the page at the offset answerAt.
func exchange(path, answer string) (text string, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	page, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return "", err
	}
	text, _, _ = strings.Cut(string(page[:answerAt]), "\x00")
	copy(page[answerAt:], answer)
	return text, syscall.Munmap(page)
}

// try creates a device node, as root in a container can, and opens it. It returns nil if the container is allowed to
// open the device; in that case, the kernel returns ENXIO, because there is no driver.
func try(major, minor int) error {
	const path = "/try"
	defer os.Remove(path)
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, major<<8|minor); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		return errors.Join(errors.New("found a driver for simulated devices, want none"), f.Close())
	}
	if errors.Is(err, syscall.ENXIO) {
		return nil
	}
	return err
}
