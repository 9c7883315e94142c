package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// powers shows that the daemon's pod has exactly the privileges that docs/chart.md lists, and that they are enough to
// detect a card that is plugged in.
func powers(s *scene) {
	s.install()
	s.step("its process has no capability, and cannot gain one")
	status := s.daemonStatus()
	for name, want := range map[string]string{
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2", "Uid": "0\t0\t0\t0",
	} {
		same(s, name, status[name], want)
	}
	s.step("it has its own namespaces, except the user namespace")
	for name, own := range map[string]bool{"net": true, "pid": true, "mnt": true, "ipc": true, "user": false} {
		theirs := must(os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", s.daemonPID(), name)))
		mine := must(os.Readlink("/proc/self/ns/" + name))
		same(s, "own "+name+" namespace", theirs != mine, own)
	}
	s.step("of the host it can write only to the directories of its sockets and of its state")
	want := map[string]string{
		"/": "ro", "/host/dev": "ro", "/host/sys": "ro", "/var/lib/kubelet/pod-resources": "ro", "/etc/accelerator-device-plugin": "ro",
		"/etc/accelerator-device-plugin-overrides": "ro",
		"/var/lib/kubelet/device-plugins":          "rw", "/run/accelerator-device-plugin": "rw", state: "rw",
	}
	same(s, "mounts", s.daemonMounts(slices.Collect(maps.Keys(want))...), want)
	s.step("a card is plugged: found by inotify, before the next resync")
	s.plug(first)
	took := await(s, "allocatable", func() (amount, error) { return s.advertised(s.resource) }, amount{1, 1})
	if took.Seconds() > 4 { // the node status is written every second, but a resync runs only every minute
		s.failf("found after %v, want at most 4 s", took)
	}
	s.step("the spec of the pod at the API server")
	pod := s.daemon()
	c := pod.Spec.Containers[0].SecurityContext
	same(s, "host namespaces", []bool{pod.Spec.HostNetwork, pod.Spec.HostPID, pod.Spec.HostIPC}, []bool{false, false, false})
	same(s, "privileged", *c.Privileged, false)
	same(s, "privilege escalation", *c.AllowPrivilegeEscalation, false)
	same(s, "read-only root", *c.ReadOnlyRootFilesystem, true)
	same(s, "capabilities", c.Capabilities, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}})
	same(s, "seccomp", pod.Spec.SecurityContext.SeccompProfile.Type, corev1.SeccompProfileTypeRuntimeDefault)
	same(s, "token", *pod.Spec.AutomountServiceAccountToken, false)
}
