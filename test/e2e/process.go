package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// daemonPID returns the process id of the daemon of the release.
func (s *scene) daemonPID() int {
	pod := s.daemon()
	return s.pid(pod.Status.ContainerStatuses[0].ContainerID)
}

// pid returns the first process of a container with an id as in pod status: containerd://ID.
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
	pod, err := s.readPod(name)
	s.check(err)
	s.check(syscall.Kill(s.pid(pod.Status.ContainerStatuses[0].ContainerID), syscall.SIGKILL))
}

// daemonMounts returns which of these paths are mounts in the daemon's container: path to ro or rw.
func (s *scene) daemonMounts(paths ...string) map[string]string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", s.daemonPID()))
	s.check(err)
	found := map[string]string{}
	for l := range strings.Lines(string(text)) {
		fields := strings.Fields(l) // device, path, type, options
		if len(fields) > 3 && slices.Contains(paths, fields[1]) {
			found[fields[1]], _, _ = strings.Cut(fields[3], ",")
		}
	}
	return found
}
