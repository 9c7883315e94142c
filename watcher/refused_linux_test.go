package watcher_test

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/watcher"
)

// refusal makes a system call fail in the whole process, for as long as the process runs.
type refusal struct {
	call  uint32
	arg   uint32 // fail only if this is the first argument; 0: always
	errno unix.Errno
}

func (r refusal) install() error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: r.call, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // low half of args[0], little-endian
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: r.arg, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(r.errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if r.arg == 0 {
		program[3] = unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA}
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// A source that can't be opened causes one warning but no error, and the other sources keep working. A refusal can't be
// undone, so each case runs in a child process.
func TestRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the filter is written for little-endian 64-bit machines")
	}
	tests := []struct {
		name string
		refusal
		warnings []map[string]any // all expected warnings
		err      string           // substring of each one's error
		works    func(t *testing.T, h *recorder, cfg watcher.Config)
	}{
		{
			"netlink", refusal{unix.SYS_SOCKET, unix.AF_NETLINK, unix.EPERM},
			[]map[string]any{{"source": "uevent", "remaining": "inotify and resync"}},
			"operation not permitted", expectNodeHint,
		},
		{
			"inotify instance", refusal{unix.SYS_INOTIFY_INIT1, 0, unix.EMFILE},
			[]map[string]any{{"source": "inotify", "remaining": "uevents and resync"}, {"source": "inotify", "remaining": "resync"}},
			"fs.inotify.max_user_instances", expectUEventHint,
		},
		{
			"inotify watch", refusal{unix.SYS_INOTIFY_ADD_WATCH, 0, unix.ENOSPC},
			[]map[string]any{{"source": "inotify", "remaining": "uevents and resync"}, {"remaining": "resync"}},
			"fs.inotify.max_user_watches", expectUEventHint,
		},
	}
	const child = "WATCHER_TEST_REFUSED"
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv(child) == "" {
				inChild(t, child, 0)
				return
			}
			if err := tt.install(); err != nil {
				t.Skipf("seccomp filters cannot be installed here: %v", err)
			}
			cfg := simulated(t)
			cfg.Subsystems = []string{"mem"}
			mkdir(t, cfg.Host.Sys, portDir)
			h := newRecorder(t, cfg)
			h.run(t)
			h.expectLine(t, zap.DebugLevel, "source.lost", nil) // the next attempt failed too
			tt.works(t, h, cfg)
			lines := h.logs.FilterLevelExact(zap.WarnLevel).All()
			if len(lines) != len(tt.warnings) {
				t.Fatalf("%d warnings, want %d: %v", len(lines), len(tt.warnings), lines)
			}
			for i, line := range lines {
				got := line.ContextMap()
				if !contains(got, tt.warnings[i]) || got["event"] != "source.lost" || !strings.Contains(got["error"].(string), tt.err) {
					t.Errorf("warning %d: %v, want %v with the error %q", i, got, tt.warnings[i], tt.err)
				}
			}
		})
	}
}

// In a pod with hostUsers: false, the kernel doesn't send uevents to the pod's network namespace. With hostNetwork:
// true it does, but then the messages don't come from user ID 0. The source counts as lost even though its socket could
// be opened.
func TestUserNamespace(t *testing.T) {
	t.Parallel()
	const child = "WATCHER_TEST_USER_NAMESPACE"
	const remedy = ": run the daemon in the user namespace of the node (hostUsers: true)"
	for _, tt := range []struct {
		name       string
		namespaces uintptr
		err        string
	}{
		{"with its network", unix.CLONE_NEWUSER | unix.CLONE_NEWNET, "the kernel sends no uevents to the network namespace of a user namespace"},
		{"with the network of the node", unix.CLONE_NEWUSER, "uevents of the kernel cannot be told from forged ones, because the " +
			"user namespace of this process does not have user 0 of the node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv(child) == "" {
				inChild(t, child, tt.namespaces)
				return
			}
			cfg := simulated(t)
			h := newRecorder(t, cfg)
			h.run(t)
			h.expectLine(t, zap.DebugLevel, "source.lost", nil) // the next attempt
			warned := h.lines(zap.WarnLevel, "source.lost")
			if len(warned) != 1 || warned[0].ContextMap()["source"] != "uevent" || warned[0].ContextMap()["error"] != tt.err+remedy {
				t.Errorf("warnings %v, want one that uevents are lost", warned)
			}
			expectNodeHint(t, h, cfg)
			want := []string{"watcher of uevent: lost, changes are found by inotify and resync: " + tt.err + remedy}
			compare.Values(t, "lost", want, h.Lost())
		})
	}
}

func expectNodeHint(t *testing.T, h *recorder, cfg watcher.Config) {
	write(t, "", cfg.Host.Dev, "dfl-port.0")
	h.expect(t, node("dfl-port.0"))
}

func expectUEventHint(t *testing.T, h *recorder, _ watcher.Config) {
	if os.Geteuid() != 0 {
		return // only root can make the kernel send uevents
	}
	provoke(t, memNull, "change "+uuid)
	expectUEvent(t, h, map[string]any{"devpath": "/devices/virtual/mem/null"})
}

// inChild runs the current test in a child process, in these new namespaces.
func inChild(t *testing.T, variable string, namespaces uintptr) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		t.Skipf("namespaces cannot be made here: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("skipped in the child:\n%s", out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("not run in the child:\n%s", out)
	}
}

// The uevent source doesn't need any privileges; only the large buffer does.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make the kernel send uevents")
	}
	cfg := watcher.Config{Host: sysfs.Host{Sys: "/sys", Dev: "/dev"}, Subsystems: []string{"mem"}, Metrics: metrics.New("test")}
	opened := make(chan *recorder)
	go func() {
		defer close(opened)
		// This thread switches to the user nobody, and exits along with this goroutine.
		runtime.LockOSThread()
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			return
		}
		opened <- newRecorder(t, cfg)
	}()
	h, ok := <-opened
	if !ok {
		t.Skip("the uid cannot be changed here")
	}
	if lost := h.lines(zap.WarnLevel, "source.lost"); len(lost) > 0 {
		t.Skipf("a source is refused here: %v", lost[0].ContextMap()["error"])
	}
	h.run(t)
	provoke(t, memNull, "change "+uuid)
	h.expect(t, watcher.Hint{Source: watcher.SourceUEvent})
	expectUEvent(t, h, map[string]any{"devpath": "/devices/virtual/mem/null"})
}
