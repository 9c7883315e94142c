// Command workload is what runs in the pods of the test.
//
//	workload          the container of a pod's sandbox: reaps, and waits for the end
//	workload hold     prints a [report] as a line of JSON, and waits for the end
//	workload exit     prints it, and ends
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

// report is what a container sees of devices.
type report struct {
	Env   map[string]string // ACCELERATOR_…
	Nodes map[string]string // name below /dev: MAJOR:MINOR
	Opens []string          // devices of the simulated majors that may be opened, MAJOR:MINOR
}

func main() {
	if len(os.Args) < 2 {
		wait()
		return
	}
	r, err := look()
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

// wait waits until it is told to end, and reaps what it inherits meanwhile.
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

func look() (report, error) {
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

// try makes a node of its own, which root in a container may, and opens it. That
// there is no driver means that it was allowed to.
func try(major, minor int) error {
	const path = "/try"
	defer os.Remove(path)
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, major<<8|minor); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		return errors.Join(errors.New("there is a driver for simulated devices"), f.Close())
	}
	if errors.Is(err, syscall.ENXIO) {
		return nil
	}
	return err
}
