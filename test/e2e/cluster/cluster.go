package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Root is the directory for all of the cluster's files, except those whose paths are fixed in the kubelet. It isn't
// below /tmp or /run, because these may be mounted with nodev, which disables device nodes.
const Root = "/var/lib/adp-e2e"

// NodeName is the node's name.
const NodeName = "e2e"

// patience is how long to wait for a part of the cluster to come up.
const patience = 2 * time.Minute

// Options configures a cluster.
type Options struct {
	Bin    string    // directory of the binaries; the CNI plugins are in its cni subdirectory
	Logs   string    // directory for the processes' logs
	Output io.Writer // gets a line for each part that comes up
}

// Cluster is a running cluster.
type Cluster struct {
	Client     kubernetes.Interface
	Kubeconfig string // path of a kubeconfig that authenticates as an administrator

	Options
	lock   net.Listener
	before before

	mu        sync.Mutex
	processes map[string]*process
}

// Up starts a cluster and waits until its node is ready. If it fails, it removes everything that it has started.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	// The lock is an abstract socket, because the kernel releases its name when the process ends.
	lock, err := net.Listen("unix", "@"+Root)
	if err != nil {
		return nil, fmt.Errorf("another cluster of make e2e is running: %w", err)
	}
	if err := clean(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	before, err := recordHost()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	c := &Cluster{Options: o, lock: lock, before: before, processes: map[string]*process{}}
	if err := c.up(ctx); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	return c, nil
}

// up starts all parts.
func (c *Cluster) up(ctx context.Context) error {
	if err := os.RemoveAll(c.Logs); err != nil {
		return err
	}
	for _, dir := range []string{dir("etcd"), dir("pki"), dir("cdi"), "/var/lib/kubelet", c.Logs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := mark(); err != nil {
		return err
	}
	if err := addBridge(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := writePKI(dir("pki")); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	if err := FirstCredentials.write(dir("pki")); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	if err := writeConfigs(c.Bin); err != nil {
		return err
	}
	c.Kubeconfig = dir("admin.kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no client-side limit
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	return c.startAll(ctx)
}

// startAll starts all parts of the cluster. It waits for a part to come up only if the next one needs it.
func (c *Cluster) startAll(ctx context.Context) error {
	if err := c.start("etcd", "containerd", "kube-apiserver"); err != nil {
		return err
	}
	if err := c.await(ctx, "containerd", c.containerdAnswers); err != nil {
		return err
	}
	if err := c.await(ctx, "API server", c.apiServerReady); err != nil {
		return err
	}
	if err := c.start("kube-controller-manager", "kube-scheduler", "kubelet"); err != nil {
		return err
	}
	if err := c.await(ctx, "node", c.nodeReady); err != nil {
		return err
	}
	return c.await(ctx, "default service account", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *Cluster) containerdAnswers(ctx context.Context) error {
	_, err := c.Run(ctx, "ctr", "version")
	return err
}

func (c *Cluster) apiServerReady(ctx context.Context) error {
	return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func (c *Cluster) nodeReady(ctx context.Context) error {
	node, err := c.Node(ctx)
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return errors.New(condition.Message)
		}
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("taint %s", node.Spec.Taints[0].Key)
	}
	return nil
}

// Node returns the node from the API server.
func (c *Cluster) Node(ctx context.Context) (*corev1.Node, error) {
	return c.Client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
}

// await waits until a part of the cluster is up, and prints how long it took.
func (c *Cluster) await(ctx context.Context, name string, up func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := up(ctx)
		if err == nil {
			fmt.Fprintf(c.Output, "  %-24s up after %.1f s\n", name, time.Since(began).Seconds())
			return nil
		}
		if ended := c.Ended(); ended != nil {
			return ended
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", name, context.Cause(ctx), err)
		}
	}
}

// Ended returns an error if one of the cluster's processes has ended unexpectedly.
func (c *Cluster) Ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if err := p.ended(); err != nil {
			return err
		}
	}
	return nil
}

// StopKubelet stops the kubelet. Containers keep running.
func (c *Cluster) StopKubelet() error { return c.stop("kubelet") }

// StartKubelet starts the kubelet. It doesn't wait until the kubelet is ready.
func (c *Cluster) StartKubelet() error { return c.start("kubelet") }

// StopAPIServer stops the API server. The other parts keep running and retry.
func (c *Cluster) StopAPIServer() error { return c.stop("kube-apiserver") }

// StartAPIServer starts the API server and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if err := c.start("kube-apiserver"); err != nil {
		return err
	}
	return c.await(ctx, "API server", c.apiServerReady)
}

// Kill kills the part of the cluster with this name if it is running.
func (c *Cluster) Kill(name string) {
	if p := c.forget(name); p != nil {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// EndedPart reports whether a part of the cluster has ended or was never started.
func (c *Cluster) EndedPart(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[name]
	return p == nil || p.ended() != nil
}

// Signal sends a signal to a part of the cluster if it is running.
func (c *Cluster) Signal(name string, signal syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.processes[name]; p != nil {
		return p.cmd.Process.Signal(signal)
	}
	return nil
}

// Start restarts a part of the cluster that was killed or has ended by itself, and waits until it is up.
func (c *Cluster) Start(ctx context.Context, name string) error {
	c.Kill(name)
	if err := c.start(name); err != nil {
		return err
	}
	up, ok := map[string]func(context.Context) error{
		"containerd": c.containerdAnswers, "etcd": c.apiServerReady, "kube-apiserver": c.apiServerReady, "kubelet": c.nodeReady,
	}[name]
	if !ok {
		return nil
	}
	return c.await(ctx, name, up)
}

// EndPods ends all pods' containers without involving the kubelet, as a reboot would.
func (c *Cluster) EndPods(ctx context.Context) error { return removeSandboxes(ctx) }

// Run runs one of the binaries in Bin with an administrator's kubeconfig, and returns its stdout. Errors include its
// stderr.
func (c *Cluster) Run(ctx context.Context, name string, args ...string) (string, error) {
	if name == "ctr" {
		args = append([]string{"--address", ContainerdSocket, "--namespace", "k8s.io"}, args...)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, name), args...)
	cmd.Dir = Root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HELM_NAMESPACE=kube-system",
		"HELM_CACHE_HOME="+dir("helm"), "HELM_CONFIG_HOME="+dir("helm"), "HELM_DATA_HOME="+dir("helm"))
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(out), fmt.Errorf("%s %s: %w: %s", name, args[0], err, exit.Stderr)
	}
	return string(out), err
}

// Import imports the images in an archive into containerd.
func (c *Cluster) Import(ctx context.Context, archive string) error {
	_, err := c.Run(ctx, "ctr", "images", "import", archive)
	return err
}

// dir returns a path below Root.
func dir(elem ...string) string { return filepath.Join(append([]string{Root}, elem...)...) }
