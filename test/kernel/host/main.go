package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options holds the command line.
type options struct {
	kernel, modules, init, daemon, stories, out string

	programs []string // installed in the guest's /bin

	only    string
	cpus    int
	count   bool
	iommu   bool
	xrt     bool
	timeout time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kernel, "kernel", "", "uncompressed kernel image, for PVH boot")
	flag.StringVar(&o.modules, "modules", "", "directory of kernel modules")
	flag.StringVar(&o.init, "init", "", "static binary that is /init of the guest")
	flag.StringVar(&o.daemon, "daemon", "", "static binary accelerator-device-plugin under test")
	flag.StringVar(&o.stories, "stories", "", "directory of stories")
	flag.StringVar(&o.out, "out", "", "directory for the output")
	flag.StringVar(&o.only, "only", "", "part of a name; only stories with this part in their name run")
	// With two processors, an emulated guest occasionally loses timers and hangs.
	flag.IntVar(&o.cpus, "cpus", 1, "number of processors of the guest")
	flag.BoolVar(&o.count, "count", false, "clock of the guest counts instructions, one nanosecond each")
	flag.BoolVar(&o.iommu, "iommu", false, "the guest has an IOMMU, which vfio needs")
	flag.BoolVar(&o.xrt, "xrt", false, "the slots have room for cards of xocl")
	flag.DurationVar(&o.timeout, "timeout", 8*time.Minute, "time limit of the whole run")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "host [flags] PROGRAM ...: boots the guest with these static binaries in /bin")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.programs = flag.Args()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
		status = 3
	}
	os.Exit(status)
}

// run boots the guest, waits until it has ended, and returns its exit status.
func run(ctx context.Context, o options) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("timeout: the guest still runs after %v", o.timeout))
	defer cancel()
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return 0, err
	}
	image := filepath.Join(o.out, "initramfs")
	if err := writeInitramfs(image, o); err != nil {
		return 0, fmt.Errorf("initramfs: %w", err)
	}
	m, err := boot(ctx, image, o)
	if err != nil {
		return 0, err
	}
	status, answered := m.serve()
	if err := m.wait(); err != nil && !answered {
		return 0, errors.Join(context.Cause(ctx), fmt.Errorf("qemu: %w (see %s)", err, m.console))
	}
	if !answered {
		return 0, fmt.Errorf("the guest has ended without a status (see %s)", m.console)
	}
	return status, nil
}
