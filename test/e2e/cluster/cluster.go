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
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Root is where everything is kept, but for what the kubelet wants elsewhere. Not
// below /tmp or /run, where device nodes may not work (nodev).
const Root = "/var/lib/adp-e2e"

// NodeName is the name of the one node.
const NodeName = "e2e"

// patience is how long a part may take until it answers.
const patience = 2 * time.Minute

// Options say what to run.
type Options struct {
	Bin  string    // directory of the binaries, that of the CNI plugins in cni
	Logs string    // directory for a log of each process
	Say  io.Writer // told what is up, a line each
}

// Cluster is a running one.
type Cluster struct {
	Client     kubernetes.Interface
	Kubeconfig string // of an administrator

	Options
	lock      net.Listener
	before    before
	processes map[string]*process
}

// Up starts a cluster and returns when its node is ready. When it fails, nothing is
// left.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	// A name that goes with the process.
	lock, err := net.Listen("unix", "@"+Root)
	if err != nil {
		return nil, fmt.Errorf("another cluster of ours is up: %w", err)
	}
	if err := clean(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	before, err := remember()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	c := &Cluster{Options: o, lock: lock, before: before, processes: map[string]*process{}}
	if err := c.up(ctx); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	return c, nil
}

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
	config.QPS = -1 // no limit of our own
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	return c.startAll(ctx)
}

// startAll starts each part as soon as those that it cannot wait for are up.
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

// Node is the node as the API server has it.
func (c *Cluster) Node(ctx context.Context) (*corev1.Node, error) {
	return c.Client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
}

// await waits until a part is up, and says so.
func (c *Cluster) await(ctx context.Context, what string, up func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := up(ctx)
		if err == nil {
			fmt.Fprintf(c.Say, "  %-24s up after %.1f s\n", what, time.Since(began).Seconds())
			return nil
		}
		if ended := c.Ended(); ended != nil {
			return ended
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// Ended is why one of the processes ended that should not have, or nil.
func (c *Cluster) Ended() error {
	for _, p := range c.processes {
		if err := p.ended(); err != nil {
			return err
		}
	}
	return nil
}

// StopKubelet ends the kubelet; containers go on.
func (c *Cluster) StopKubelet() error { return c.stop("kubelet") }

// StartKubelet starts it again and returns at once.
func (c *Cluster) StartKubelet() error { return c.start("kubelet") }

// EndPods ends the containers of all pods behind the kubelet's back, as a reboot does.
func (c *Cluster) EndPods(ctx context.Context) error { return removeSandboxes(ctx) }

// Run runs one of the binaries as an administrator of the cluster and returns what
// it wrote to stdout. An error has what it wrote to stderr.
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

// Import gives the runtime the images of an archive.
func (c *Cluster) Import(ctx context.Context, archive string) error {
	_, err := c.Run(ctx, "ctr", "images", "import", archive)
	return err
}

func dir(elem ...string) string { return filepath.Join(append([]string{Root}, elem...)...) }
