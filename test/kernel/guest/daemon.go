package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

const (
	address    = "127.0.0.1:9480"
	kubeletDir = "/run/kubelet"
	podsSocket = "/run/pods/kubelet.sock"
	cdiDir     = "/run/cdi"
)

// settings are the daemon's, before those of the story: the default intervals would
// make the stories long.
var settings = []string{
	"--kubelet-dir=" + kubeletDir, "--pod-resources-socket=" + podsSocket, "--http-address=" + address, "--socket=", "--state-dir=",
	"--log-level=debug", "--health-interval=100ms", "--recovery-hold=300ms", "--reprogram-timeout=1s", "--flap-limit=0",
}

// daemon is the process under test.
type daemon struct {
	process *exec.Cmd
	log     *journal
	logged  chan struct{} // closed when its log has ended
	client  *http.Client
}

// startDaemon runs it in a sandbox, and returns when it is ready.
func startDaemon(ctx context.Context, sandbox string, flags []string, log *journal) (*daemon, error) {
	args := append(append([]string{"/daemon", "serve"}, settings...), flags...)
	if sandbox != "root" {
		args = append([]string{"/init", "launch", sandbox}, args...)
	}
	d := &daemon{process: exec.Command(args[0], args[1:]...), log: log, logged: make(chan struct{})}
	d.process.SysProcAttr = isolated(sandbox)
	stderr, err := d.process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(d.logged)
		log.read(stderr)
	}()
	d.client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: d.dial}}
	for {
		if _, err = d.fetch("/readyz"); err == nil {
			return d, nil
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return d, fmt.Errorf("it is not ready: %w", err)
		}
		select {
		case <-d.logged:
			return nil, fmt.Errorf("it ended at once: %w: %s", d.process.Wait(), log.with(""))
		default:
		}
	}
}

// dial connects in the daemon's network namespace.
func (d *daemon) dial(ctx context.Context, network, address string) (net.Conn, error) {
	// The thread is not unlocked: it ends with this goroutine, whose namespace is
	// nobody else's.
	type answer struct {
		conn net.Conn
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		runtime.LockOSThread()
		space, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", d.process.Process.Pid))
		if err != nil {
			answered <- answer{err: err}
			return
		}
		defer space.Close()
		if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
			answered <- answer{err: err}
			return
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		answered <- answer{conn, err}
	}()
	a := <-answered
	return a.conn, a.err
}

func (d *daemon) fetch(path string) ([]byte, error) {
	answer, err := d.client.Get("http://" + address + path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	return text, err
}

// devices are those that it shows.
func (d *daemon) devices() ([]story.Device, error) {
	text, err := d.fetch("/devices")
	if err != nil {
		return nil, err
	}
	var devices []story.Device
	err = json.Unmarshal(text, &devices)
	return devices, err
}

// end ends it, and wants it to end well.
func (d *daemon) end() error {
	d.client.CloseIdleConnections()
	kill := time.AfterFunc(10*time.Second, func() { _ = d.process.Process.Kill() })
	defer kill.Stop()
	// It may have been stopped.
	err := errors.Join(d.process.Process.Signal(syscall.SIGTERM), d.process.Process.Signal(syscall.SIGCONT))
	<-d.logged
	if err := errors.Join(err, d.process.Wait()); err != nil {
		return fmt.Errorf("the daemon's end: %w", err)
	}
	return nil
}

// pause waits, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
