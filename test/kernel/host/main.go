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

// options is the command line.
type options struct {
	kernel, modules, init, daemon, tool, runc, stories, out string

	only    string
	cpus    int
	count   bool
	timeout time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kernel, "kernel", "", "uncompressed kernel image, for PVH boot")
	flag.StringVar(&o.modules, "modules", "", "directory of kernel modules")
	flag.StringVar(&o.init, "init", "", "static binary that runs in the guest")
	flag.StringVar(&o.daemon, "daemon", "", "static binary under test")
	flag.StringVar(&o.tool, "tool", "", "static binary accelerator-fpga under test")
	flag.StringVar(&o.runc, "runc", "", "static binary of the container runtime")
	flag.StringVar(&o.stories, "stories", "", "directory of stories")
	flag.StringVar(&o.out, "out", "", "directory for what is left behind")
	flag.StringVar(&o.only, "only", "", "run only stories with this in their name")
	// With two, timers of an emulated guest get lost now and then, and it hangs.
	flag.IntVar(&o.cpus, "cpus", 1, "processors of the guest")
	flag.BoolVar(&o.count, "count", false, "let the guest's clock count instructions, a nanosecond each")
	flag.DurationVar(&o.timeout, "timeout", 8*time.Minute, "limit for everything")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
		status = 3
	}
	os.Exit(status)
}

// run boots the guest and returns its status.
func run(ctx context.Context, o options) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the guest was not done after %v", o.timeout))
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
		return 0, fmt.Errorf("the guest ended without a status (see %s)", m.console)
	}
	return status, nil
}
