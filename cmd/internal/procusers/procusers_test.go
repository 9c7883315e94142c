package procusers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/cmd/internal/procusers"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var (
	null = sysfs.DeviceNumber{Major: 1, Minor: 3}
	zero = sysfs.DeviceNumber{Major: 1, Minor: 5}
	full = sysfs.DeviceNumber{Major: 1, Minor: 7} // not open in any other process
)

var proc = procusers.Proc{Root: "/proc", Patience: 10 * time.Second}

// A holder is this test binary, run with one of these names and a path.
const holderVariable = "OPENED_TEST_HOLDER"

var holders = map[string]func(path string) error{
	"open": func(path string) error {
		_, err := syscall.Open(path, syscall.O_RDWR, 0)
		return err
	},
	"map": func(path string) error {
		fd, err := syscall.Open(path, syscall.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = syscall.Mmap(fd, 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE)
		return errors.Join(err, syscall.Close(fd))
	},
	// Only a thread with its own descriptor table has the file.
	"thread": func(path string) error {
		opened := make(chan error)
		runtime.LockOSThread() // the other thread must not be the main thread
		go func() {
			runtime.LockOSThread()
			err := syscall.Unshare(syscall.CLONE_FILES)
			if err == nil {
				_, err = syscall.Open(path, syscall.O_RDWR, 0)
			}
			opened <- err
			select {}
		}()
		return <-opened
	},
	"churn": churn,
	"look": func(string) error {
		found, err := proc.Find(context.Background(), []sysfs.DeviceNumber{full})
		fmt.Println(len(found), err)
		return nil
	},
}

func TestMain(m *testing.M) {
	if hold, ok := holders[os.Getenv(holderVariable)]; ok {
		fmt.Println(hold(os.Args[1]))
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hold starts a process that holds the device at path until the test ends. It returns the process and its first line of
// output.
func hold(t *testing.T, kind, path string, as *syscall.Credential) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", path)
	cmd.Env = append(os.Environ(), holderVariable+"="+kind)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	stdin := must.Value(cmd.StdinPipe())(t)
	stdout := must.Value(cmd.StdoutPipe())(t)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() > 0 {
			t.Error(err)
		}
	})
	line := must.Value(bufio.NewReader(stdout).ReadString('\n'))(t)
	return cmd, strings.TrimSpace(line)
}

// of returns the process with this PID.
func of(found []procusers.Process, pid int) procusers.Process {
	for _, p := range found {
		if p.PID == pid {
			return p
		}
	}
	return procusers.Process{}
}

// A regular file is found by its inode number and size, whether it is open or mapped. Other files aren't found.
func TestFindFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root follows mappings")
	}
	path := filepath.Join(t.TempDir(), "resource0")
	must.Succeed(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	file := must.Value(procusers.FileAt(path))(t)
	for _, kind := range []string{"open", "map"} {
		cmd, said := hold(t, kind, path, nil)
		if said != "<nil>" {
			t.Fatal(said)
		}
		found, err := proc.Find(t.Context(), nil, procusers.File{Inode: file.Inode, Size: 1}, file)
		if got := of(found, cmd.Process.Pid); err != nil && !errors.Is(err, fs.ErrPermission) || !slices.Equal(got.Files, []procusers.File{file}) || len(got.Devices) > 0 {
			t.Errorf("%s: found %+v (%v), want %+v", kind, got, err, file)
		}
	}
	if f, err := procusers.FileAt(filepath.Dir(path)); err == nil {
		t.Errorf("a directory: found %+v, want an error", f)
	}
}

func TestFind(t *testing.T) {
	own := filepath.Join(t.TempDir(), "any name\n")
	if os.Geteuid() == 0 {
		must.Succeed(t, syscall.Mknod(own, syscall.S_IFCHR|0o600, 1<<8|7))
	}
	for _, test := range []struct {
		name, kind, path string
		root             bool
		want             []sysfs.DeviceNumber
	}{
		{"open", "open", "/dev/full", false, []sysfs.DeviceNumber{full}},
		{"a node of its own", "open", own, true, []sysfs.DeviceNumber{full}},
		{"mapped, and closed", "map", "/dev/zero", true, []sysfs.DeviceNumber{zero}},
		{"open by a thread alone", "thread", "/dev/full", false, []sysfs.DeviceNumber{full}},
		{"no device", "open", "/proc/self/exe", false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				t.Skip("only root makes devices and follows mappings")
			}
			path, kind := test.path, test.kind
			if kind == "open" && test.want == nil {
				path = filepath.Join(t.TempDir(), "file")
				must.Succeed(t, os.WriteFile(path, nil, 0o600))
			}
			cmd, said := hold(t, kind, path, nil)
			if said != "<nil>" {
				t.Fatal(said)
			}
			found, err := proc.Find(t.Context(), []sysfs.DeviceNumber{full, zero, full})
			if err != nil && !errors.Is(err, fs.ErrPermission) { // other users' processes
				t.Error(err)
			}
			got := of(found, cmd.Process.Pid)
			compare.Values(t, "devices", test.want, got.Devices)
			if test.want != nil && got.Command == "" {
				t.Errorf("found %+v, want its command", got)
			}
			if test.name == "a node of its own" {
				must.Succeed(t, syscall.Kill(cmd.Process.Pid, syscall.SIGKILL))
				_, _ = cmd.Process.Wait()
				if found, _ := proc.Find(t.Context(), []sysfs.DeviceNumber{full}); of(found, cmd.Process.Pid).PID != 0 {
					t.Errorf("found %+v after it has ended", found)
				}
			}
		})
	}
}

// If a process exits during the search, that isn't an error. The test uses a PID namespace with its own procfs, because
// on some hosts not even root can read PID 1.
func TestProcessesThatEnd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes PID namespaces")
	}
	cmd := exec.Command("/proc/self/exe", t.TempDir())
	cmd.Env = append(os.Environ(), holderVariable+"=churn")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	said, err := cmd.CombinedOutput()
	if err != nil || string(said) != "<nil>\n" {
		t.Errorf("%v: %s", err, said)
	}
}

// churn searches the processes in a PID namespace while other processes start and exit there.
func churn(dir string) error {
	if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", dir, "proc", 0, "")); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	begun := 0
	go func() {
		var err error
		for ; ctx.Err() == nil && err == nil; begun++ {
			err = exec.Command("/bin/true").Run()
		}
		ended <- err
	}()
	proc := procusers.Proc{Root: dir, Patience: 10 * time.Second}
	var err error
	for range 100 {
		found, findErr := proc.Find(ctx, []sysfs.DeviceNumber{null})
		if err = errors.Join(err, findErr); len(found) == 0 {
			err = errors.Join(err, errors.New("this process was not found"))
		}
	}
	cancel()
	if err := errors.Join(err, <-ended); err != nil || begun < 20 {
		return fmt.Errorf("%d processes: %w", begun, err)
	}
	return nil
}

// Without privileges, searching other users' processes fails.
func TestWithoutPrivileges(t *testing.T) {
	var nobody *syscall.Credential
	if os.Geteuid() == 0 {
		nobody = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	_, said := hold(t, "look", "", nobody)
	compare.Contains(t, "it said", "permission denied", said)
}

// fake creates a procfs with one process. links contains the targets of its links, keyed by their paths below the
// process's directory.
func fake(t *testing.T, links map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"7/task/7", "7/fd", "7/map_files", "self", "not a process"} {
		must.Succeed(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for name, target := range links {
		must.Succeed(t, os.Symlink(target, filepath.Join(root, "7", name)))
	}
	return root
}

func TestFakeProc(t *testing.T) {
	block := filepath.Join(t.TempDir(), "block")
	if os.Geteuid() == 0 {
		must.Succeed(t, syscall.Mknod(block, syscall.S_IFBLK|0o600, 1<<8|3))
	}
	for _, test := range []struct {
		name  string
		links map[string]string
		want  []sysfs.DeviceNumber
		err   string
	}{
		{"nothing", nil, nil, ""},
		{"open", map[string]string{"fd/3": "/dev/null"}, []sysfs.DeviceNumber{null}, ""},
		{"mapped", map[string]string{"map_files/1000-2000": "/dev/null"}, []sysfs.DeviceNumber{null}, ""},
		{"a block device of this number", map[string]string{"fd/3": block}, nil, ""},
		{"closed meanwhile", map[string]string{"fd/3": "gone", "fd/4": "/dev/null"}, []sysfs.DeviceNumber{null}, ""},
		{"one link cannot be read", map[string]string{"fd/3": "3", "fd/4": "/dev/null"}, []sysfs.DeviceNumber{null},
			"7/fd/3: too many levels of symbolic links"},
	} {
		t.Run(test.name, func(t *testing.T) {
			proc := procusers.Proc{Root: fake(t, test.links), Patience: time.Minute}
			found, err := proc.Find(t.Context(), []sysfs.DeviceNumber{null})
			compare.Values(t, "devices", test.want, of(found, 7).Devices)
			compare.Outcome(t, "error", test.err, err)
		})
	}
}

// If searching a process takes too long, that is an error, but the other processes are still found.
func TestPatience(t *testing.T) {
	root := fake(t, map[string]string{"fd/3": "/dev/null"})
	// Opening a FIFO blocks until it has a writer.
	fifo := filepath.Join(root, "7/comm")
	must.Succeed(t, syscall.Mkfifo(fifo, 0o600))
	must.Succeed(t, os.MkdirAll(root+"/8/task/8", 0o755), os.Mkdir(root+"/8/fd", 0o755), os.Symlink("/dev/null", root+"/8/fd/0"))
	proc := procusers.Proc{Root: root, Patience: 50 * time.Millisecond}
	found, err := proc.Find(t.Context(), []sysfs.DeviceNumber{null})
	compare.Error(t, "error", "process 7: the search of its files took longer than 50ms", err)
	if of(found, 8).PID == 0 {
		t.Errorf("found %+v, want process 8", found)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time left"))
	compare.Error(t, "Find", "no time left", compare.ErrorOf(proc.Find(ctx, []sysfs.DeviceNumber{null})))
	w := must.Value(os.OpenFile(fifo, os.O_RDWR, 0))(t) // lets the goroutine continue
	w.Close()
}

// A process that starts during the search is found, because it may have inherited files.
func TestNewProcess(t *testing.T) {
	root := fake(t, map[string]string{"fd/3": "/dev/null"})
	child := filepath.Join(t.TempDir(), "5")
	must.Succeed(t, os.MkdirAll(child+"/task/5", 0o755), os.Mkdir(child+"/fd", 0o755), os.Symlink("/dev/null", child+"/fd/0"),
		syscall.Mkfifo(filepath.Join(root, "7/comm"), 0o600))
	go func() { // while Find is opening process 7's FIFO
		w, err := os.OpenFile(filepath.Join(root, "7/comm"), os.O_WRONLY, 0)
		must.Succeed(t, err, os.Rename(child, filepath.Join(root, "5")), w.Close())
	}()
	proc := procusers.Proc{Root: root, Patience: time.Minute}
	found, err := proc.Find(t.Context(), []sysfs.DeviceNumber{null})
	if err != nil || len(found) != 2 || found[0].PID != 5 || found[1].PID != 7 {
		t.Errorf("found %+v, %v, want 5 and 7", found, err)
	}
}

func TestNoProc(t *testing.T) {
	proc := procusers.Proc{Root: filepath.Join(t.TempDir(), "proc")}
	compare.ErrorIs(t, "Find", fs.ErrNotExist, compare.ErrorOf(proc.Find(t.Context(), nil)))
	compare.ErrorIs(t, "CheckAccess", fs.ErrNotExist, proc.CheckAccess())
}

func TestSeesHost(t *testing.T) {
	for _, test := range []struct{ namespace, err string }{
		{"pid:[4026531836]", ""},
		{"pid:[4026532911]", "this process is in a PID namespace of its own"},
	} {
		root := t.TempDir()
		must.Succeed(t, os.MkdirAll(filepath.Join(root, "self/ns"), 0o755))
		must.Succeed(t, os.Symlink(test.namespace, filepath.Join(root, "self/ns/pid")))
		if test.err == "" && os.Geteuid() != 0 {
			test.err = "this process is not root"
		}
		compare.Outcome(t, test.namespace, test.err, procusers.Proc{Root: root}.CheckAccess())
	}
}

func TestGroup(t *testing.T) {
	for text, want := range map[string]string{
		"":        "",
		"0::/\n":  "",
		"0:://\n": "",
		"rubbish": "",
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope\n": "cri-containerd-abc.scope",
		"12:pids:/kubepods/besteffort/pod1/abc\n0::/\n":                     "abc",
		"0::/system.slice/a:b.service\n":                                    "a:b.service",
	} {
		compare.Equal(t, fmt.Sprintf("group of %q", text), want, procusers.GroupOf([]byte(text)))
	}
}

func FuzzGroup(f *testing.F) {
	f.Add("12:pids:/kubepods/besteffort/pod1/abc\n0::/system.slice/a:b.service\n")
	f.Fuzz(func(t *testing.T, text string) {
		if group := procusers.GroupOf([]byte(text)); strings.ContainsAny(group, "/\n") || group != "" && !strings.Contains(text, group) {
			t.Errorf("%q: %q", text, group)
		}
	})
}
