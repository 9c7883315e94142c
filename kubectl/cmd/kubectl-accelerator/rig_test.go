package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// plugin is the path of the built accelerator-device-plugin, or the error of its build.
var plugin = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "accelerator-device-plugin")
	cmd := exec.Command("go", "build", "-C", "../../..", "-tags", "grpcnotrace", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/accelerator-device-plugin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

var built string // the directory of plugin

// asProgram is the environment variable that turns the test binary into the program itself.
const asProgram = "TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	klog.SetLogger(logr.Discard()) // as main does
	var err error
	if built, err = os.MkdirTemp("", "kubectl-accelerator"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// node is a simulated node with a running daemon.
type node struct {
	t    *testing.T
	dir  string
	path string // of the program
	log  string // path of the daemon's log

	daemon *exec.Cmd
}

// startNode starts a daemon on a simulated node, and waits until it answers.
func startNode(t *testing.T, boards ...string) *node {
	t.Helper()
	path := must.Value(plugin())(t)
	dir := must.Value(os.MkdirTemp("", "node"))(t) // a path that is short enough for a socket
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := &node{t: t, dir: dir, path: path, log: filepath.Join(dir, "log")}
	n.simulate() // creates a node
	for i, board := range boards {
		n.simulate("plug", []string{"3b:00.0", "5e:00.0"}[i], "--board", board)
	}
	n.start()
	return n
}

// start starts the daemon, which ends with the test.
func (n *node) start() *exec.Cmd {
	n.t.Helper()
	must.Succeed(n.t, os.MkdirAll(filepath.Join(n.dir, "kubelet"), 0o700))
	log := must.Value(os.Create(n.log))(n.t)
	daemon := n.command(n.t.Context(), "serve")
	daemon.Stderr = log
	must.Succeed(n.t, daemon.Start())
	n.t.Cleanup(func() {
		daemon.Process.Kill()
		daemon.Wait() // the error is that it was killed
		log.Close()
	})
	n.daemon = daemon
	n.await("devices")
	return daemon
}

// command returns the program, with the environment of a pod on the node.
func (n *node) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, n.path, args...)
	cmd.Env = []string{
		"ACCELERATOR_SYSFS_ROOT=" + n.dir + "/sim/sys", "ACCELERATOR_DEV_ROOT=" + n.dir + "/sim/dev", "ACCELERATOR_HOST_DEV_ROOT=/dev",
		"ACCELERATOR_SOCKET=" + n.dir + "/daemon.sock", "ACCELERATOR_STATE_DIR=" + n.dir + "/state", "ACCELERATOR_HTTP_ADDRESS=",
		"ACCELERATOR_KUBELET_DIR=" + n.dir + "/kubelet", "ACCELERATOR_POD_RESOURCES_SOCKET=/nonexistent/pods.sock",
		"ACCELERATOR_RECOVERY_HOLD=100ms", "ACCELERATOR_HEALTH_INTERVAL=100ms", "TZ=UTC",
	}
	return cmd
}

// simulate changes the cards of the node.
func (n *node) simulate(args ...string) {
	n.t.Helper()
	if out, err := n.command(n.t.Context(), append([]string{"simulate", n.dir + "/sim"}, args...)...).CombinedOutput(); err != nil {
		n.t.Fatalf("simulate %v: %v: %s", args, err, out)
	}
}

// await waits until the daemon prints its devices with these texts.
func (n *node) await(texts ...string) {
	n.t.Helper()
	patient.Await(n.t, "devices", func() error {
		out, err := n.command(n.t.Context(), "devices", "-o", "state").CombinedOutput()
		for _, text := range texts {
			if err != nil || !strings.Contains(string(out), text) {
				return fmt.Errorf("%w: found no %q in %s", err, text, out)
			}
		}
		return nil
	})
}

// run is a [simcluster.Command].
func (n *node) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if args[0] != "accelerator-device-plugin" {
		fmt.Fprintf(stderr, "exec: %q: executable file not found in $PATH", args[0])
		return 127
	}
	cmd := n.command(ctx, args[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return 126
	}
	return 0
}

// kubectl runs the command with a kubeconfig, and returns its output and exit code.
func kubectl(t *testing.T, c *simcluster.Cluster, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"--kubeconfig", c.Kubeconfig(t)}, args...), &out, &errs)
	return out.String(), errs.String(), code
}
