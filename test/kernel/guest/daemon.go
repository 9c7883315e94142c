package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
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
	configFile = "/run/settings.yaml" // written by the rule verb; stories pass it to the daemon with --config
)

// settings are the flags that every daemon starts with, before the story's own. Among other things, they shorten the
// intervals, because stories would take too long with the default ones.
var settings = []string{
	"--kubelet-dir=" + kubeletDir, "--pod-resources-socket=" + podsSocket, "--http-address=" + address, "--socket=", "--state-dir=",
	"--log-level=debug", "--health-interval=100ms", "--recovery-hold=300ms", "--reprogram-timeout=1s", "--flap-limit=0",
}

// addRule adds a rule for a resource to the daemon's configuration file.
func addRule(file, resource string, match []string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("resources:\n"), nil
	}
	text = fmt.Appendf(text, "- name: %s\n  match:\n", resource)
	for _, word := range match {
		key, value, _ := strings.Cut(word, "=")
		text = fmt.Appendf(text, "    %s: %q\n", key, value)
	}
	return errors.Join(err, os.WriteFile(file, text, 0o644))
}

// daemon is the daemon's process, which the stories test.
type daemon struct {
	process *exec.Cmd
	log     *journal
	logged  chan struct{} // closed when the log ends
	client  *http.Client
}

// startDaemon starts the daemon in a sandbox and waits until it is ready.
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
			return d, fmt.Errorf("the daemon is not ready: %w", err)
		}
		select {
		case <-d.logged:
			return nil, fmt.Errorf("the daemon has ended before it was ready: %w: %s", d.process.Wait(), log.with(""))
		default:
		}
	}
}

// dial connects from inside the daemon's network namespace.
func (d *daemon) dial(ctx context.Context, network, address string) (net.Conn, error) {
	// The goroutine locks its thread and never unlocks it, so the thread ends with the goroutine. Otherwise, other
	// goroutines could run on this thread, in the daemon's namespace.
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

// devices returns the daemon's response to /devices.
func (d *daemon) devices() ([]story.Device, error) {
	text, err := d.fetch("/devices")
	if err != nil {
		return nil, err
	}
	var devices []story.Device
	err = json.Unmarshal(text, &devices)
	return devices, err
}

// end stops the daemon, and returns an error unless it exits with status 0.
func (d *daemon) end() error {
	d.client.CloseIdleConnections()
	kill := time.AfterFunc(10*time.Second, func() { _ = d.process.Process.Kill() })
	defer kill.Stop()
	// SIGCONT is needed because a story may have stopped the daemon.
	err := errors.Join(d.process.Process.Signal(syscall.SIGTERM), d.process.Process.Signal(syscall.SIGCONT))
	<-d.logged
	if err := errors.Join(err, d.process.Wait()); err != nil {
		return fmt.Errorf("the daemon has failed: %w", err)
	}
	return nil
}

// pause waits for the given time. If ctx is done first, it returns the cause.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
