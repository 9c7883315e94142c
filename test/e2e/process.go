package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// daemonPID is the process of the release's daemon.
func (s *scene) daemonPID() int {
	pod := s.daemon()
	return s.pid(pod.Status.ContainerStatuses[0].ContainerID)
}

// pid is the first process of a container, as pod status names it:
// containerd://ID.
func (s *scene) pid(container string) int {
	out, err := s.Run(s.ctx, "ctr", "tasks", "list")
	s.check(err)
	for l := range strings.Lines(out) {
		if fields := strings.Fields(l); len(fields) > 1 && fields[0] == strings.TrimPrefix(container, "containerd://") {
			pid, err := strconv.Atoi(fields[1])
			s.check(err)
			return pid
		}
	}
	s.failf("no process of container %q", container)
	return 0
}

// killContainer kills the process of a pod's container.
func (s *scene) killContainer(name string) {
	pod, err := s.look(name)
	s.check(err)
	s.check(syscall.Kill(s.pid(pod.Status.ContainerStatuses[0].ContainerID), syscall.SIGKILL))
}

// writable are the mounts of the daemon from a disk that it may write to, sorted; but
// not the runtime's own.
func (s *scene) writable() []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", s.daemonPID()))
	s.check(err)
	var paths []string
	for l := range strings.Lines(string(text)) {
		f := strings.Fields(l) // device, path, type, options
		if len(f) < 4 || f[2] == "proc" || strings.HasPrefix(f[1], "/dev") {
			continue
		}
		if slices.Contains(strings.Split(f[3], ","), "rw") {
			paths = append(paths, f[1])
		}
	}
	slices.Sort(paths)
	return paths
}
