package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// daemonPID returns the PID of the release's daemon.
func (s *scene) daemonPID() int {
	pod := s.daemon()
	return s.pid(pod.Status.ContainerStatuses[0].ContainerID)
}

// pid returns the PID of a container's first process. container has the form containerd://ID, as in a pod's status.
func (s *scene) pid(container string) int {
	out := s.must("ctr", "tasks", "list")
	for l := range strings.Lines(out) {
		if fields := strings.Fields(l); len(fields) > 1 && fields[0] == strings.TrimPrefix(container, "containerd://") {
			pid := must(strconv.Atoi(fields[1]))
			return pid
		}
	}
	s.failf("no process of container %q", container)
	return 0
}

// killContainer kills a pod's container process.
func (s *scene) killContainer(name string) {
	pod := must(s.readPod(name))
	s.check(syscall.Kill(s.pid(pod.Status.ContainerStatuses[0].ContainerID), syscall.SIGKILL))
}

// restartsWith kills a pod's container process, and waits until the restarted container has the same devices as before.
// n is the number of restarts, including this one.
func (s *scene) restartsWith(name string, was report, n int32) {
	s.killContainer(name)
	s.unharmed(name, was, n)
}

// daemonStatus returns the fields of the daemon's /proc/PID/status.
func (s *scene) daemonStatus() map[string]string {
	text := must(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.daemonPID())))
	status := map[string]string{}
	for l := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(l), ":"); ok {
			status[name] = strings.TrimSpace(value)
		}
	}
	return status
}

// daemonMounts returns those of these paths that are mount points in the daemon's container, mapped to ro or rw.
func (s *scene) daemonMounts(paths ...string) map[string]string {
	return mounts(s.daemonPID(), paths...)
}

// mounts is like daemonMounts but for any process.
func mounts(pid int, paths ...string) map[string]string {
	text := must(os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid)))
	found := map[string]string{}
	for l := range strings.Lines(string(text)) {
		fields := strings.Fields(l) // device, path, type, options
		if len(fields) > 3 && slices.Contains(paths, fields[1]) {
			found[fields[1]], _, _ = strings.Cut(fields[3], ",")
		}
	}
	return found
}

// processStart returns when a process was started, to within the kernel's resolution of 10 ms.
func (s *scene) processStart(pid int) time.Time {
	text := must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))
	_, after, _ := strings.Cut(string(text), ") ") // the fields after the name, starting with the third
	ticks := must(strconv.ParseInt(strings.Fields(after)[22-3], 10, 64))
	uptime := must(os.ReadFile("/proc/uptime"))
	now := time.Now()
	up := must(strconv.ParseFloat(strings.Fields(string(uptime))[0], 64))
	return now.Add(time.Duration(ticks)*time.Second/100 - time.Duration(up*float64(time.Second)))
}

// resident returns a process's resident memory in MiB.
func (s *scene) resident(pid int) float64 {
	text := must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kilobytes float64
	must(fmt.Sscan(rest, &kilobytes))
	return kilobytes / 1024
}
