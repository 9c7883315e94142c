package prometheus

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Daemon is our binary at work.
type Daemon struct {
	Address string // where it serves /metrics
	process *exec.Cmd
	log     *os.File
}

// StartDaemon starts the binary and waits until it serves HTTP. What it logs is
// written to a file.
func StartDaemon(ctx context.Context, binary, log string, flags ...string) (*Daemon, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		process: exec.Command(binary, append([]string{"serve", "--http-address", "127.0.0.1:0", "--socket", "", "--state-dir", ""}, flags...)...),
		log:     file,
	}
	d.process.Stderr = file
	if err := d.process.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if d.Address, err = listening(ctx, log, `"event":"http.served".*"address":"([^"]+)"`); err != nil {
		return nil, errors.Join(err, d.End())
	}
	return d, nil
}

// Hangup sends SIGHUP.
func (d *Daemon) Hangup() error { return d.process.Process.Signal(syscall.SIGHUP) }

// End ends it in good order: exit status 0, and soon.
func (d *Daemon) End() error { return end(d.process, d.log) }
