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
	"slices"
	"strconv"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// options holds the flags' values.
type options struct {
	bin, certManager, workload, dist, version, tree, out, releases string

	only        string
	keep, check bool

	soak   time.Duration
	seed   uint64
	replay string
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "", "directory of the cluster's binaries")
	flag.StringVar(&o.certManager, "cert-manager", "", "directory of cert-manager's binary and chart")
	flag.StringVar(&o.workload, "workload", "", "static binary for the pods of the stories")
	flag.StringVar(&o.dist, "dist", "", "directory of the images and the packaged charts")
	flag.StringVar(&o.version, "version", "", "version of the images and charts")
	flag.StringVar(&o.tree, "tree", "", "root of the source tree, for manifests and examples")
	flag.StringVar(&o.out, "out", "", "directory for logs and the state after failures")
	flag.StringVar(&o.releases, "releases", "", "directory of earlier releases, for the story of a release; empty: it does not run")
	flag.StringVar(&o.only, "only", "", "run only stories whose names match, a regular expression")
	flag.BoolVar(&o.keep, "keep", false, "keep the cluster until a signal arrives")
	flag.DurationVar(&o.soak, "soak", 0, "run random operations for this time instead of stories")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the operations")
	flag.StringVar(&o.replay, "replay", "", "run the operations of this history")
	flag.BoolVar(&o.check, "check", false, "check whether a cluster can run on this machine, and exit")
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

// run runs the selected stories, and reports whether any of them failed.
func run(ctx context.Context, o options) (failed bool, err error) {
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return false, err
	}
	if err := cluster.CheckHost(); err != nil {
		return false, fmt.Errorf("no cluster can run on this machine: %w", err)
	}
	if o.check {
		return false, nil
	}
	chosen := choose(pattern)
	if len(chosen) == 0 {
		return false, fmt.Errorf("-only: found %q, want a pattern that matches the name of a story", o.only)
	}
	for _, path := range []*string{&o.bin, &o.certManager, &o.workload, &o.dist, &o.tree, &o.out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return false, err
		}
	}
	if o.releases != "" {
		if o.releases, err = filepath.Abs(o.releases); err != nil {
			return false, err
		}
	}
	var times table
	end := times.begin("cluster up")
	fmt.Println("== cluster up")
	c, err := cluster.Up(ctx, cluster.Options{Bin: o.bin, Logs: filepath.Join(o.out, "cluster"), Output: os.Stdout})
	if err != nil {
		return false, err
	}
	// Take the cluster down in a deferred function, so that this happens even after a panic.
	defer func() {
		end := times.begin("cluster down")
		fmt.Println("== cluster down")
		err = errors.Join(err, c.Down())
		end("")
		times.print(os.Stdout)
	}()
	end("")
	end = times.begin("images imported")
	fmt.Println("== images")
	if err := importImages(ctx, c, o); err != nil {
		return false, err
	}
	end("")
	if o.soak > 0 || o.replay != "" {
		return runSoak(ctx, c, o)
	}
	version, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		return false, err
	}
	minor, err := strconv.Atoi(version.Minor)
	if err != nil {
		return false, fmt.Errorf("version of the API server: %w", err)
	}
	// The stories in apart run while another story is waiting. Any that are left run at the end.
	isApart := func(s story) bool { return slices.Contains(apart, s.name) }
	others := slices.DeleteFunc(slices.Clone(chosen), func(s story) bool { return !isApart(s) })
	chosen = slices.DeleteFunc(chosen, isApart)
	beside := func() bool {
		if len(others) == 0 || ctx.Err() != nil {
			return false
		}
		s := others[0]
		others = others[1:]
		failed = !runStory(ctx, c, o, minor, s, &times, nil) || failed
		return true
	}
	for _, s := range chosen {
		if ctx.Err() == nil {
			failed = !runStory(ctx, c, o, minor, s, &times, beside) || failed
		}
	}
	for beside() {
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

// importImages imports the repository's images into the node as described in docs/install.md, and also the images for
// the stories' pods and for cert-manager. The "next version" of an image is the same image with a different tag.
func importImages(ctx context.Context, c *cluster.Cluster, o options) error {
	others := filepath.Join(o.out, "images.tar")
	defer os.Remove(others)
	for binary, images := range map[string][]cluster.Image{o.workload: cluster.Images, filepath.Join(o.certManager, "cert-manager"): certManagerImages} {
		if err := cluster.WriteImages(others, binary, images); err != nil {
			return err
		}
		if err := c.Import(ctx, others); err != nil {
			return err
		}
	}
	for _, name := range images {
		if err := c.Import(ctx, o.image(name)); err != nil {
			return err
		}
		name := "docker.io/library/" + name + ":"
		if _, err := c.Run(ctx, "ctr", "images", "tag", name+o.tag(), name+nextVersion); err != nil {
			return err
		}
	}
	return nil
}

// keep prints how to use and stop the cluster, and waits for a signal. It prints this process's PID, because make
// forwards SIGTERM but not SIGINT. Ctrl-C works without the PID: it sends SIGINT to every process in the terminal.
func keep(ctx context.Context, c *cluster.Cluster, o options) {
	fmt.Printf("== the cluster runs until Ctrl-C, or until: kill %d (kill -INT of make does not end it)\n"+
		"  export KUBECONFIG=%s CONTAINERD_ADDRESS=%s CONTAINERD_NAMESPACE=k8s.io PATH=%s:$PATH\n",
		os.Getpid(), c.Kubeconfig, cluster.ContainerdSocket, o.bin)
	<-ctx.Done()
}
