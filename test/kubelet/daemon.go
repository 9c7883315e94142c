package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Daemon is a running process of the binary that is being tested.
type Daemon struct {
	process *exec.Cmd
	log     *os.File
}

// StartDaemon starts the binary and appends its log to a file.
func StartDaemon(binary, log string, flags ...string) (*Daemon, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	d := &Daemon{process: exec.Command(binary, append([]string{"serve"}, flags...)...), log: file}
	d.process.Stderr = file
	if err := d.process.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return d, nil
}

// Hangup sends SIGHUP to the process.
func (d *Daemon) Hangup() error { return d.process.Process.Signal(syscall.SIGHUP) }

// Pause sends SIGSTOP to the process.
func (d *Daemon) Pause() error { return d.process.Process.Signal(syscall.SIGSTOP) }

// Kill sends SIGKILL to the process and waits for it to end.
func (d *Daemon) Kill() error {
	if err := d.process.Process.Kill(); err != nil {
		return err
	}
	_ = d.process.Wait() // the error is always "signal: killed"
	return d.log.Close()
}

// End sends SIGTERM to the process, and returns an error unless it exits with status 0 within 5 s.
func (d *Daemon) End() error {
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(5*time.Second, func() { _ = d.process.Process.Kill() })
	err := d.process.Wait()
	if !late.Stop() && err != nil {
		err = fmt.Errorf("daemon still runs 5 s after SIGTERM: %w", err)
	}
	return errors.Join(err, d.log.Close())
}

// Lines decodes the lines in a daemon's log, except for an incomplete last line.
func Lines(log string) ([]map[string]any, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	var lines []map[string]any
	for line := range bytes.Lines(text) {
		var fields map[string]any
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the line is still being written
		}
		if err := json.Unmarshal(line, &fields); err != nil {
			return nil, fmt.Errorf("%s: found line %q, want JSON: %w", log, line, err)
		}
		lines = append(lines, fields)
	}
	return lines, nil
}
