package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// grace is how long a process can take to end before it is killed.
const grace = 10 * time.Second

// process is one of the cluster's running processes.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{} // closed once the process has ended and err is set
	err       error
}

// start starts parts of the cluster. Each part runs in a session of its own, so that Ctrl-C reaches only this process,
// which then stops the parts in the right order. If this process is killed, the kernel kills the parts.
func (c *Cluster) start(names ...string) error {
	for _, name := range names {
		p := &process{name: name, log: filepath.Join(c.Logs, name+".log"), done: make(chan struct{})}
		log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		p.cmd = exec.Command(filepath.Join(c.Bin, name), arguments(name)...)
		p.cmd.Stdout, p.cmd.Stderr = log, log
		// containerd looks for its shim and runc in PATH.
		p.cmd.Env = append(os.Environ(), "PATH="+c.Bin+":"+os.Getenv("PATH"))
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		err = p.cmd.Start()
		log.Close()
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.processes[name] = p
		c.mu.Unlock()
		go func() {
			p.err = p.cmd.Wait()
			close(p.done)
		}()
	}
	return nil
}

// stop stops a part of the cluster if it is running.
func (c *Cluster) stop(name string) error {
	p := c.forget(name)
	if p == nil {
		return nil
	}
	if err := p.ended(); err != nil {
		return err
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return nil
}

// forget marks a part of the cluster as stopped on purpose. It returns the part's process, or nil if the part isn't
// running.
func (c *Cluster) forget(name string) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[name]
	delete(c.processes, name)
	return p
}

// ended returns an error if the process has ended by itself.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended unexpectedly: %w\n%s", p.name, errors.Join(p.err), lastLines(p.log, 5))
	default:
		return nil
	}
}

// lastLines returns the last n lines of a file.
func lastLines(path string, n int) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n-1):], nil)
}
