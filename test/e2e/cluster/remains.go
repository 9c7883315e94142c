package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// before is the machine's state before the cluster started. It is also saved in a file below [Root], in case this
// process is killed.
type before struct {
	Sysctls map[string]string
	There   []string // which paths in [elsewhere] and [networkNamespaces] existed
}

// sysctls lists the sysctls that the kubelet and the bridge plugin change.
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
}

// elsewhere lists the directories outside of [Root] that containerd, its plugins and the kubelet create.
var elsewhere = []string{
	"/var/lib/kubelet", "/var/log/containers", "/var/log/pods", "/var/lib/cni", "/run/containerd", "/run/netns", "/run/runc",
	"/opt/containerd", "/usr/libexec/kubernetes",
}

// networkNamespaces matches the pods' network namespaces.
const networkNamespaces = "/run/netns/cni-*"

// claim is a file that marks /var/lib/kubelet as belonging to the cluster.
const claim = "/var/lib/kubelet/.adp-e2e"

// mark creates the claim file.
func mark() error { return os.WriteFile(claim, []byte("of make e2e\n"), 0o600) }

// CheckHost returns an error if the machine can't run a cluster, or if another kubelet is or has been running on it.
func CheckHost() error {
	if os.Geteuid() != 0 {
		return errors.New("found another user, want root, for containers, devices and mounts")
	}
	if pids := running("kubelet"); len(pids) > 0 {
		return fmt.Errorf("found a kubelet, process %d, want none", pids[0])
	}
	if connection, err := net.DialTimeout("tcp", "127.0.0.1:10250", time.Second); err == nil {
		return errors.Join(errors.New("port 10250: found a listener, want none: kubelets listen on this port"), connection.Close())
	}
	if _, err := os.Stat(claim); err == nil {
		return nil // a cluster started by make e2e was killed
	}
	if entries, err := os.ReadDir("/var/lib/kubelet"); err == nil && len(entries) > 0 {
		return errors.New("/var/lib/kubelet: found files, want none: they belong to another kubelet")
	}
	for _, pattern := range []string{"/sys/fs/cgroup/kubepods*", "/sys/fs/cgroup/*/kubepods*"} { // cgroup v2, v1
		if pods, _ := filepath.Glob(pattern); len(pods) > 0 {
			return fmt.Errorf("%s: found a cgroup of another kubelet, want none", pods[0])
		}
	}
	return nil
}

// running returns the PIDs of the processes with the given name.
func running(name string) []int {
	var pids []int
	for pid, comm := range processes("comm") {
		if strings.TrimSpace(comm) == name {
			pids = append(pids, pid)
		}
	}
	return pids
}

// recordHost returns the machine's state and saves it to a file.
func recordHost() (before, error) {
	b := before{Sysctls: map[string]string{}}
	for _, name := range sysctls {
		if value, err := os.ReadFile("/proc/sys/" + name); err == nil {
			b.Sysctls[name] = strings.TrimSpace(string(value))
		}
	}
	namespaces, _ := filepath.Glob(networkNamespaces)
	b.There = namespaces
	for _, path := range elsewhere {
		if _, err := os.Lstat(path); err == nil {
			b.There = append(b.There, path)
		}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return b, err
	}
	if err := os.MkdirAll(Root, 0o711); err != nil {
		return b, err
	}
	return b, os.WriteFile(dir("before.json"), text, 0o600)
}

// clean removes what is left of a cluster whose process was killed.
func clean() error {
	text, err := os.ReadFile(dir("before.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var b before
	if err := json.Unmarshal(text, &b); err != nil {
		return fmt.Errorf("%s: %w", dir("before.json"), err)
	}
	return b.restore()
}

// Down ends all processes and restores the machine. It continues after errors.
func (c *Cluster) Down() error {
	err := c.stop("kubelet")
	if _, up := c.processes["containerd"]; up {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = errors.Join(err, removeSandboxes(ctx))
	}
	for _, name := range []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd", "containerd"} {
		err = errors.Join(err, c.stop(name))
	}
	return errors.Join(err, c.before.restore(), c.lock.Close())
}

// restore kills the remaining processes, removes everything that the cluster created, and resets the sysctls.
func (b before) restore() error {
	err := errors.Join(killRest(), unmountRest(), removeCgroups(), removeBridge())
	namespaces, _ := filepath.Glob(networkNamespaces)
	for _, path := range append(namespaces, elsewhere...) {
		if !b.existed(path) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	for name, value := range b.Sysctls {
		if now, _ := os.ReadFile("/proc/sys/" + name); strings.TrimSpace(string(now)) != value {
			err = errors.Join(err, os.WriteFile("/proc/sys/"+name, []byte(value), 0))
		}
	}
	if b.existed("/var/lib/kubelet") { // it was empty before
		entries, _ := os.ReadDir("/var/lib/kubelet")
		for _, entry := range entries {
			err = errors.Join(err, os.RemoveAll(filepath.Join("/var/lib/kubelet", entry.Name())))
		}
	}
	return errors.Join(err, os.RemoveAll(Root))
}

// existed reports whether a path existed before the cluster started.
func (b before) existed(path string) bool {
	for _, there := range b.There {
		if there == path {
			return true
		}
	}
	return false
}
