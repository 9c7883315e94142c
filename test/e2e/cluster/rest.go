package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processes returns the content of /proc/PID/FILE for every process, keyed by PID.
func processes(file string) map[int]string {
	all := map[int]string{}
	paths, _ := filepath.Glob("/proc/[0-9]*/" + file)
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 { // zombies don't have a command line
			all[pid] = string(text)
		}
	}
	return all
}

// killRest kills the processes left in containers, and the shims of the cluster's containerd.
func killRest() error {
	end := time.Now().Add(grace)
	for {
		left := PodProcesses()
		for pid, line := range processes("cmdline") {
			if strings.Contains(line, "containerd-shim") && strings.Contains(line, "\x00"+ContainerdSocket+"\x00") {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes %v have not ended after SIGKILL", left)
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// podCgroups returns the directories of the pods' cgroups, parents first. All of them belong to the cluster:
// [CheckHost] has made sure that no such cgroups existed before.
func podCgroups() []string {
	var dirs []string
	// With cgroup v1, each hierarchy has a kubepods directory of its own.
	roots, _ := filepath.Glob("/sys/fs/cgroup/kubepods")
	more, _ := filepath.Glob("/sys/fs/cgroup/*/kubepods")
	for _, root := range append(roots, more...) {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	return dirs
}

// PodProcesses returns the sorted PIDs of all processes in pods' cgroups.
func PodProcesses() []int {
	var pids []int
	for _, dir := range podCgroups() {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// removeCgroups removes the pods' cgroups, which must not contain any processes.
func removeCgroups() error {
	var errs error
	for _, dir := range slices.Backward(podCgroups()) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// unmountRest unmounts the file systems of containers, volumes and network namespaces.
func unmountRest() error {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && ours(unescape(fields[1])) {
			paths = append(paths, unescape(fields[1]))
		}
	}
	for _, path := range slices.Backward(paths) { // last mount first
		err = errors.Join(err, syscall.Unmount(path, syscall.MNT_DETACH))
	}
	return err
}

// ours reports whether a mount belongs to the cluster.
func ours(path string) bool {
	for _, root := range []string{Root, "/var/lib/kubelet", "/run/netns/cni-"} {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(root, "-")) {
			return true
		}
	}
	return false
}

// unescape decodes white space and backslashes in a path that the kernel has escaped, such as \040.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// Programs returns the PIDs of the processes in pods whose /proc/PID/comm is name.
func Programs(name string) []int {
	in := PodProcesses()
	return slices.DeleteFunc(running(name), func(pid int) bool { return !slices.Contains(in, pid) })
}
