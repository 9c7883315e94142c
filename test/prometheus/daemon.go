package prometheus

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Daemon is a running process of the binary that is being tested.
type Daemon struct {
	Address string // HTTP address that serves /metrics
	process *exec.Cmd
	log     *os.File
}

// StartDaemon starts the binary and waits until it serves HTTP. The binary logs to the file log.
func StartDaemon(ctx context.Context, binary, log string, flags ...string) (*Daemon, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		process: exec.Command(binary, append([]string{"serve", "--http-address", "127.0.0.1:0", "--socket", ""}, flags...)...),
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

// Hangup sends SIGHUP to the process.
func (d *Daemon) Hangup() error { return d.process.Process.Signal(syscall.SIGHUP) }

// End sends SIGTERM to the process, and returns an error unless it exits with status 0 within 5 s.
func (d *Daemon) End() error { return end(d.process, d.log) }
