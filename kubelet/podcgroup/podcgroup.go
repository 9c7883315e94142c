// Package podcgroup finds out from the host's cgroups which pods still have processes. The kubelet forgets a
// force-deleted pod immediately, but it may take seconds to stop the pod's containers, and it can't stop a process that
// hangs in the kernel.
package podcgroup

import (
	"os"
	"path/filepath"
	"strings"
)

// maxDepth is how far below a hierarchy's root the cgroup that contains all pods may be. By default, that cgroup is
// directly below the root, but a kubelet setting can move it: in kind, it is kubelet.slice/kubelet-kubepods.slice.
const maxDepth = 3

// Found reports whether root contains pod cgroups.
func Found(root string) bool { return len(find(hierarchy(root), maxDepth)) > 0 }

// hierarchy returns the directory of the cgroup hierarchy in which to look for pods.
func hierarchy(root string) string {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		return filepath.Join(root, "pids") // cgroup v1 has a hierarchy for each controller
	}
	return root
}

// Alive returns which of the pods with these UIDs have at least one process. root is where the host's cgroups are
// mounted, usually /sys/fs/cgroup. A pod that isn't found there doesn't count as alive, so if root is wrong, for
// example because it is a container's own /sys/fs/cgroup, the result is empty.
func Alive(root string, uids []string) map[string]bool {
	if len(uids) == 0 {
		return nil
	}
	names := map[string]string{} // UIDs, by the name of the pod's cgroup
	for _, uid := range uids {
		names["pod"+uid] = uid
		names["pod"+strings.ReplaceAll(uid, "-", "_")] = uid // with the systemd driver
	}
	alive := map[string]bool{}
	for _, kubepods := range find(hierarchy(root), maxDepth) {
		look(kubepods, names, alive)
	}
	return alive
}

// look searches dir and its QoS class cgroups, and adds to alive the pods that have a process.
func look(dir string, names map[string]string, alive map[string]bool) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		// With the systemd driver, a cgroup's name consists of its parents' names and its own, joined by dashes.
		name := strings.TrimSuffix(e.Name(), ".slice")
		own := name
		if i := strings.Index(name, "-pod"); i >= 0 && !strings.HasPrefix(name, "pod") {
			own = name[i+1:]
		}
		path := filepath.Join(dir, e.Name())
		switch uid, found := names[own]; {
		case !e.IsDir():
		case found && populated(path):
			alive[uid] = true
		case strings.HasSuffix(name, "burstable"), strings.HasSuffix(name, "besteffort"):
			look(path, names, alive)
		}
	}
}

// find returns the kubelet's pod cgroups below dir: kubepods, or kubepods.slice with the systemd driver. It skips the
// slices for services and users, which have many cgroups.
func find(dir string, depth int) (all []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		switch path := filepath.Join(dir, e.Name()); {
		case !e.IsDir() || e.Name() == "system.slice" || e.Name() == "user.slice":
		case strings.Contains(e.Name(), "kubepods"):
			all = append(all, path)
		case depth > 1:
			all = append(all, find(path, depth-1)...)
		}
	}
	return all
}

// populated reports whether a pod's cgroup, including the cgroups of its containers, has a process. It doesn't read
// cgroup.procs, because the kernel omits processes that aren't in the reader's PID namespace. In cgroup v1, processes
// that have exited count until their parent has read their status.
func populated(cgroup string) bool {
	if events, err := os.ReadFile(filepath.Join(cgroup, "cgroup.events")); err == nil { // cgroup v2
		return strings.Contains("\n"+string(events), "\npopulated 1")
	}
	current, err := os.ReadFile(filepath.Join(cgroup, "pids.current"))
	return err == nil && strings.TrimSpace(string(current)) != "0"
}
