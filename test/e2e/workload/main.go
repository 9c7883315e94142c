// Command workload runs in the pods of the test.
//
//	workload          the sandbox container of a pod: reaps processes, and waits for a signal
//	workload hold     prints a [report] as a line of JSON, and waits for a signal
//	workload exit     prints a [report], and exits
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
)

// report has the devices that a container can see.
type report struct {
	Env   map[string]string // ACCELERATOR_…
	Nodes map[string]string // name below /dev: MAJOR:MINOR
	Opens []string          // devices of the simulated majors that the container may open, MAJOR:MINOR
}

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
	if os.Args[1] == "hold" {
		wait()
	}
}

// wait waits for SIGTERM or SIGINT. In the meantime it reaps inherited processes.
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

// inspect returns the report of this container.
func inspect() (report, error) {
	r := report{Env: map[string]string{}, Nodes: map[string]string{}, Opens: []string{}}
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "ACCELERATOR_") {
			r.Env[name] = value
		}
	}
	paths, _ := filepath.Glob("/dev/dfl-*")
	for _, path := range paths {
		var stat syscall.Stat_t
		if err := syscall.Stat(path, &stat); err != nil {
			return r, fmt.Errorf("%s: %w", path, err)
		}
		r.Nodes[filepath.Base(path)] = fmt.Sprintf("%d:%d", stat.Rdev>>8, stat.Rdev&0xff)
	}
	for _, major := range []int{120, 121} {
		for minor := range 8 {
			if err := try(major, minor); err == nil {
				r.Opens = append(r.Opens, fmt.Sprintf("%d:%d", major, minor))
			} else if !errors.Is(err, syscall.EPERM) {
				return r, err
			}
		}
	}
	return r, nil
}

// try creates a device node, which root in a container may do, and opens it. It returns nil if the
// open was allowed: then the error of the kernel is ENXIO, because there is no driver.
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
