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

// before is what was there, or how it was, before the cluster. It is kept in [Root],
// for a cluster that is found there after its process was killed.
type before struct {
	Sysctls map[string]string
	There   []string // those of [elsewhere] and [networkNamespaces]
}

// sysctls are set by the kubelet and by the bridge plugin.
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
}

// elsewhere are the directories that containerd, its plugins and the kubelet make
// without being asked where.
var elsewhere = []string{
	"/var/lib/kubelet", "/var/log/containers", "/var/log/pods", "/var/lib/cni", "/run/containerd", "/run/netns", "/run/runc",
	"/opt/containerd", "/usr/libexec/kubernetes",
}

// networkNamespaces are those of pods.
const networkNamespaces = "/run/netns/cni-*"

// claim is in /var/lib/kubelet where that is ours.
const claim = "/var/lib/kubelet/.adp-e2e"

func mark() error { return os.WriteFile(claim, []byte("of make e2e\n"), 0o600) }

// Refuse is why no cluster may be started here, or nil: somebody else's kubelet is
// there, or was.
func Refuse() error {
	if os.Geteuid() != 0 {
		return errors.New("want root, for containers, devices and mounts")
	}
	if pids := running("kubelet"); len(pids) > 0 {
		return fmt.Errorf("a kubelet is running, process %d", pids[0])
	}
	if connection, err := net.DialTimeout("tcp", "127.0.0.1:10250", time.Second); err == nil {
		return errors.Join(errors.New("something answers at port 10250, where kubelets listen"), connection.Close())
	}
	if _, err := os.Stat(claim); err == nil {
		return nil // left over of a cluster of ours that was killed
	}
	if entries, err := os.ReadDir("/var/lib/kubelet"); err == nil && len(entries) > 0 {
		return errors.New("/var/lib/kubelet is in use: a kubelet is at home here")
	}
	for _, pattern := range []string{"/sys/fs/cgroup/kubepods*", "/sys/fs/cgroup/*/kubepods*"} { // cgroup v2, v1
		if pods, _ := filepath.Glob(pattern); len(pods) > 0 {
			return fmt.Errorf("%s: a kubelet is at home here", pods[0])
		}
	}
	return nil
}

// running are the processes with a name.
func running(name string) []int {
	var pids []int
	for pid, comm := range processes("comm") {
		if strings.TrimSpace(comm) == name {
			pids = append(pids, pid)
		}
	}
	return pids
}

// remember writes down how everything is.
func remember() (before, error) {
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

// clean takes away what is left of a cluster whose process was killed.
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

// Down ends everything and takes away what was made. It does not stop at errors.
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

// restore takes everything away whose process has ended, or should have.
func (b before) restore() error {
	err := errors.Join(killRest(), unmountRest(), removeCgroups(), removeBridge())
	namespaces, _ := filepath.Glob(networkNamespaces)
	for _, path := range append(namespaces, elsewhere...) {
		if !b.there(path) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	for name, value := range b.Sysctls {
		if now, _ := os.ReadFile("/proc/sys/" + name); strings.TrimSpace(string(now)) != value {
			err = errors.Join(err, os.WriteFile("/proc/sys/"+name, []byte(value), 0))
		}
	}
	if b.there("/var/lib/kubelet") { // it was there, and empty
		entries, _ := os.ReadDir("/var/lib/kubelet")
		for _, entry := range entries {
			err = errors.Join(err, os.RemoveAll(filepath.Join("/var/lib/kubelet", entry.Name())))
		}
	}
	return errors.Join(err, os.RemoveAll(Root))
}

func (b before) there(path string) bool {
	for _, there := range b.There {
		if there == path {
			return true
		}
	}
	return false
}
