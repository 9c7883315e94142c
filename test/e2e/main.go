package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// options is the command line.
type options struct {
	bin, workload, dist, version, tree, out string

	only        string
	keep, check bool
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "", "directory of the cluster's binaries")
	flag.StringVar(&o.workload, "workload", "", "static binary that runs in pods")
	flag.StringVar(&o.dist, "dist", "", "directory of the image and the packaged chart")
	flag.StringVar(&o.version, "version", "", "version of these")
	flag.StringVar(&o.tree, "tree", "", "root of the source tree, for manifests and examples")
	flag.StringVar(&o.out, "out", "", "directory for what is left behind")
	flag.StringVar(&o.only, "only", "", "tell only stories whose names match, a regular expression")
	flag.BoolVar(&o.keep, "keep", false, "leave the cluster up until a signal comes")
	flag.BoolVar(&o.check, "check", false, "say whether this machine will do, and end")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	failed, err := run(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(3)
	case failed:
		os.Exit(1)
	}
}

// run tells the stories and says whether one failed.
func run(ctx context.Context, o options) (failed bool, err error) {
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return false, err
	}
	if err := cluster.Refuse(); err != nil {
		return false, fmt.Errorf("cannot run here: %w", err)
	}
	if o.check {
		return false, nil
	}
	chosen := choose(pattern)
	if len(chosen) == 0 {
		return false, fmt.Errorf("no story has %q in its name", o.only)
	}
	for _, path := range []*string{&o.bin, &o.workload, &o.dist, &o.tree, &o.out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return false, err
		}
	}
	var times table
	times.begin("cluster up")
	fmt.Println("== cluster up")
	c, err := cluster.Up(ctx, cluster.Options{Bin: o.bin, Logs: filepath.Join(o.out, "cluster"), Say: os.Stdout})
	if err != nil {
		return false, err
	}
	// After a panic neither is anything left.
	defer func() {
		times.begin("cluster down")
		fmt.Println("== cluster down")
		err = errors.Join(err, c.Down())
		times.end("")
		times.print(os.Stdout)
	}()
	times.end("")
	times.begin("images imported")
	fmt.Println("== images")
	if err := importImages(ctx, c, o); err != nil {
		return false, err
	}
	times.end("")
	for _, s := range chosen {
		if ctx.Err() != nil {
			break
		}
		failed = !tell(ctx, c, o, s, &times) || failed
	}
	if o.keep && ctx.Err() == nil {
		keep(ctx, c, o)
		return failed, nil
	}
	if ctx.Err() != nil {
		return failed, errors.New("interrupted")
	}
	return failed, nil
}

// importImages brings the images of the tree to the node as docs/install.md says, and
// that of the pods. The next version of each of ours is the same under another tag.
func importImages(ctx context.Context, c *cluster.Cluster, o options) error {
	others := filepath.Join(o.out, "images.tar")
	if err := cluster.WriteImages(others, o.workload); err != nil {
		return err
	}
	defer os.Remove(others)
	if err := c.Import(ctx, others); err != nil {
		return err
	}
	for _, name := range images {
		if err := c.Import(ctx, o.image(name)); err != nil {
			return err
		}
		name := "docker.io/library/" + name + ":"
		if _, err := c.Run(ctx, "ctr", "images", "tag", name+o.version, name+nextVersion); err != nil {
			return err
		}
	}
	return nil
}

// keep prints how to reach and how to end the cluster, and waits for a signal. It prints
// this program's own process id because make passes on SIGTERM, but not SIGINT. The SIGINT
// of Ctrl-C reaches every process of the terminal.
func keep(ctx context.Context, c *cluster.Cluster, o options) {
	fmt.Printf("== cluster is up until Ctrl-C, or from elsewhere: kill %d (kill -INT of make does not end it)\n"+
		"  export KUBECONFIG=%s CONTAINERD_ADDRESS=%s CONTAINERD_NAMESPACE=k8s.io PATH=%s:$PATH\n",
		os.Getpid(), c.Kubeconfig, cluster.ContainerdSocket, o.bin)
	<-ctx.Done()
}
