package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/test/bitstreamtest"
)

const (
	tool         = "/bin/accelerator-fpga"
	pluginSocket = "/run/plugin/daemon.sock" // socket of a daemon that a story started with --socket
	bitstreamDir = "/run/bitstreams"         // the tool's working directory
	commandDir   = "/run/commands"           // the commands' output
	storeDir     = "/srv/intel.com/fpga"
	lockDir      = "/run/accelerator-fpga"
)

// command is a process that a story started: the tool, one of the plugin's commands, runc with a container, or a
// registry (../../registry).
type command struct {
	process        *exec.Cmd
	stdout, stderr *os.File // files rather than pipes, which a hook that outlives runc would keep open
	container      string   // name of the container; "" for other commands
	ended          chan struct{}
}

// writeBitstream writes a GBS file to a directory. The arguments are FILE AFU [INTERFACE] [cut=BYTES]. The default
// interface is the a10 model's.
func writeBitstream(dir string, args []string) error {
	file, afu, region, size := args[0], args[1], "69528db6eb31577a8c3668f9faa081f6", 0
	for _, word := range args[2:] {
		if value, ok := strings.CutPrefix(word, "cut="); ok {
			size = number([]string{value})
		} else {
			region = word
		}
	}
	image, err := image(afu)
	if err != nil {
		return err
	}
	gbs := bitstreamtest.GBS(bitstreamtest.Metadata(region, afu), image)
	if size > len(gbs) {
		return fmt.Errorf("cut: found %d, want at most %d, the size of the bitstream", size, len(gbs))
	}
	if size > 0 {
		gbs = gbs[:size]
	}
	return os.WriteFile(filepath.Join(dir, file), gbs, 0o644)
}

// begin starts a command and stores it under a name.
func (r *rig) begin(ctx context.Context, name, kind string, args []string) error {
	if _, ok := r.commands[name]; ok {
		return fmt.Errorf("command %s is running already", name)
	}
	c := &command{ended: make(chan struct{})}
	switch kind {
	case "plugin":
		c.process = exec.Command("/daemon", args...)
		c.process.Env = []string{"ACCELERATOR_SOCKET=" + pluginSocket}
	case "container":
		c.container = name
		bundle := filepath.Join(bundleDir, name)
		if err := writeBundle(bundle, cdiDir, strings.Split(args[0], ","), args[1:]); err != nil {
			return err
		}
		// pivot_root(2) doesn't work on an initramfs.
		c.process = exec.Command("/bin/runc", "--root", "/run/runc", "run", "--no-pivot", "--bundle", bundle, name)
	case "registry":
		config := filepath.Join(commandDir, name+".yaml")
		text := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n", filepath.Join(commandDir, name), args[0])
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return err
		}
		c.process = exec.Command("/bin/registry", "serve", config)
	default:
		c.process = exec.Command(tool, args...)
		c.process.Dir = bitstreamDir
	}
	var err error
	if c.stdout, err = os.Create(filepath.Join(commandDir, name+".stdout")); err != nil {
		return err
	}
	if c.stderr, err = os.Create(filepath.Join(commandDir, name+".stderr")); err != nil {
		return err
	}
	c.process.Stdout, c.process.Stderr = c.stdout, c.stderr
	if err := r.opens.attribute(true); err != nil {
		return err
	}
	if err := c.process.Start(); err != nil {
		return err
	}
	r.commands[name] = c
	go func() {
		_ = c.process.Wait() // ended checks the ProcessState
		close(c.ended)
	}()
	if kind == "registry" {
		return listening(ctx, args[0])
	}
	return nil
}

// listening waits until a server accepts connections at the given address.
func listening(ctx context.Context, address string) error {
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// states maps the arguments of the ended verb to the strings that [os.ProcessState] returns.
var states = map[string]string{"ok": "exit status 0", "failed": "exit status 1", "killed": "signal: killed"}

// ended waits for a command to end, and returns an error unless it ends in the wanted state.
func (r *rig) ended(ctx context.Context, name, want string) error {
	c, ok := r.commands[name]
	if !ok {
		return fmt.Errorf("command %s is not running", name)
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	delete(r.commands, name)
	stdout, err := os.ReadFile(c.stdout.Name())
	if err != nil {
		return err
	}
	stderr, err := os.ReadFile(c.stderr.Name())
	if err := errors.Join(err, c.stdout.Close(), c.stderr.Close()); err != nil {
		return err
	}
	r.output = string(stdout) + string(stderr)
	fmt.Fprintf(r.log, "$ %s\n%s", strings.Join(c.process.Args, " "), r.output)
	if c.container != "" {
		// Delete the container, because its process survives if runc is killed.
		remove := exec.Command("/bin/runc", "--root", "/run/runc", "delete", "--force", c.container)
		if out, err := remove.CombinedOutput(); err != nil {
			return fmt.Errorf("runc delete: %w: %s", err, out)
		}
	}
	if len(r.commands) == 0 {
		if err := r.opens.attribute(false); err != nil {
			return err
		}
	}
	got := c.process.ProcessState.String()
	if got != states[want] {
		return fmt.Errorf("state: found %s, want %s: %s", got, states[want], r.output)
	}
	if want == "failed" && c.process.Path == tool && bytes.Count(stderr, []byte("\n")) != 1 {
		return fmt.Errorf("stderr: found %q, want one line", stderr)
	}
	return nil
}

// run runs a command until it ends.
func (r *rig) run(ctx context.Context, kind, want string, args []string) error {
	const name = "run"
	if err := r.begin(ctx, name, kind, args); err != nil {
		return err
	}
	return r.ended(ctx, name, want)
}

// says returns an error unless the output of the last command that ended contains the text. Any sequence of spaces and
// newlines counts as a single space.
func (r *rig) says(text string) error {
	if !strings.Contains(strings.Join(strings.Fields(r.output), " "), text) {
		return fmt.Errorf("output: found\n%s\nwant %q", r.output, text)
	}
	return nil
}

// kill kills a command or, if hook is true, the hook that the command is running.
func (r *rig) kill(name string, hook bool) error {
	c, ok := r.commands[name]
	if !ok {
		return fmt.Errorf("command %s is not running", name)
	}
	if !hook {
		return c.process.Process.Kill()
	}
	hooks, err := toolProcesses()
	if err == nil && len(hooks) != 1 {
		err = fmt.Errorf("running hooks: found %d, want 1", len(hooks))
	}
	for process := range hooks {
		err = errors.Join(err, unix.Kill(process, unix.SIGKILL))
	}
	return err
}

// programming waits until a port is being programmed, which disables the port.
func (r *rig) programming(ctx context.Context, port string) error {
	path := filepath.Join("/sys/bus/platform/devices", port, "afu_id")
	for {
		_, err := os.ReadFile(path)
		if errors.Is(err, unix.EBUSY) {
			return nil
		}
		if pause(ctx, 5*time.Millisecond) != nil {
			return fmt.Errorf("afu_id: found error %v, want EBUSY: %w", err, context.Cause(ctx))
		}
	}
}

// locking waits until exactly want of the tool's processes hold a card's lock or are waiting for one.
func locking(ctx context.Context, want int) error {
	for {
		processes, err := toolProcesses()
		if err != nil {
			return err
		}
		found := 0
		for _, thread := range processes {
			if hasOpen(thread, lockDir) {
				found++
			}
		}
		if found == want {
			return nil
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("processes with the lock: found %d of %d, want %d: %w", found, len(processes), want, context.Cause(ctx))
		}
	}
}

// hasOpen reports whether a thread has the directory, or a file in it, open.
func hasOpen(thread int, dir string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", thread)) // the pattern is valid
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && strings.HasPrefix(target+"/", dir+"/")
	})
}

// endCommands kills the commands that are still running, and any hooks that have outlived runc.
func (r *rig) endCommands(ctx context.Context) error {
	var errs []error
	for name, c := range r.commands {
		_ = c.process.Process.Kill() // it may have ended already
		errs = append(errs, fmt.Errorf("command %s: the story has no step that waits for it", name), r.ended(ctx, name, "killed"))
	}
	for {
		left, err := toolProcesses()
		if err != nil || len(left) == 0 {
			return errors.Join(append(errs, err, r.opens.attribute(false))...)
		}
		for process := range left {
			_ = unix.Kill(process, unix.SIGKILL) // it may have ended already
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return errors.Join(append(errs, fmt.Errorf("%d killed processes of the tool still run: %w", len(left), err))...)
		}
	}
}

// toolProcesses maps each of the tool's processes, including hooks, to one of its threads that still exist. In a
// process that has been killed, only threads that are blocked in the kernel do.
func toolProcesses() (map[int]int, error) {
	links, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/exe")
	if err != nil {
		return nil, err
	}
	found := map[int]int{}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == tool {
			var process, thread int
			if _, err := fmt.Sscanf(link, "/proc/%d/task/%d/exe", &process, &thread); err != nil {
				return nil, err
			}
			found[process] = thread
		}
	}
	return found, nil
}

// readSyslog adds the messages sent to /dev/log to the journal. Each message is a syslog header and a line of JSON.
func (r *rig) readSyslog(socket io.Reader) {
	defer close(r.syslogged)
	buffer := make([]byte, 64<<10)
	for {
		n, err := socket.Read(buffer)
		if err != nil {
			return
		}
		message := buffer[:n]
		if at := bytes.IndexByte(message, '{'); at >= 0 {
			message = message[at:]
		}
		r.journal.add(string(bytes.TrimRight(message, "\n\x00")) + "\n")
	}
}
