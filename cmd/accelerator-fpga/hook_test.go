package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/programming/hook"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// TestMain runs the program instead of the tests if the test binary is called by the program's name.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case "accelerator-fpga":
		main()
	case "runtime": // runs the program and waits for it
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = append([]string{"accelerator-fpga"}, os.Args[1:]...)
		cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
		if err := cmd.Run(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(t *testing.T) string {
	t.Helper()
	return must.Value(os.Executable())(t)
}

// hookHost is a simulated node with two cards that have the same AFU, and a bundle.
type hookHost struct {
	*simnode.Node
	dir, bundle, log string
}

// newHookHost creates a node and the bundle of a container that requests an AFU. The bundle has a hook entry with this
// path and the second card.
func newHookHost(t *testing.T, afu, path string) *hookHost {
	t.Helper()
	dir := t.TempDir()
	node := must.Value(simnode.New(dir))(t)
	for _, address := range []string{"0000:3b:00.0", "0000:5e:00.0"} {
		must.Succeed(t, node.Plug(simnode.Card{Address: address, Ports: 1, AFUID: bits.AFU, InterfaceID: bits.Interface, NUMANode: -1}))
	}
	type object = map[string]any
	config, err := json.Marshal(object{
		"process": object{"env": []string{"FPGA_REGION_1=" + bits.Interface, "FPGA_AFU_1=" + afu}},
		"linux":   object{"devices": []object{{"path": "/dev/dfl-port.0"}, {"path": "/dev/dfl-port.1"}}},
		"hooks":   object{"createRuntime": []object{{"path": path, "args": []string{"accelerator-fpga", "hook", "--device", "5e:00.0", "--store", "/x"}}}},
	})
	h := &hookHost{node, dir, filepath.Join(dir, "bundle"), filepath.Join(dir, "log")}
	must.Succeed(t, err, os.Chmod(dir, 0o755), os.Mkdir(h.bundle, 0o711), // independent of the umask
		os.WriteFile(filepath.Join(h.bundle, "config.json"), config, 0o600))
	return h
}

// command returns the hook the way a runtime runs it: without an environment, in the bundle's directory.
func (h *hookHost) command(path string, flags ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	args := append([]string{"hook", "--sysfs-root", h.Sys, "--dev-root", h.Dev, "--store", h.dir + "/store", "--lock-dir", h.dir + "/locks", "--log-file", h.log}, flags...)
	cmd, stderr = exec.Command(path), &bytes.Buffer{}
	cmd.Args, cmd.Env, cmd.Dir, cmd.Stderr = append([]string{"accelerator-fpga"}, args...), []string{}, h.bundle, stderr
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"ociVersion":"1.1.0","id":"c1","bundle":%q}`, h.bundle))
	return cmd, stderr
}

// install adds a bitstream with this AFU to the store.
func (h *hookHost) install(t *testing.T, afu string) {
	t.Helper()
	file := filepath.Join(h.dir, "store", bits.Interface, afu+".gbs")
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Succeed(t, os.WriteFile(file, bits.GBS(bits.Metadata(bits.Interface, afu), make([]byte, 4096)), 0o644))
}

// logged returns the events and devices in the log.
func (h *hookHost) logged(t *testing.T) (all string) {
	t.Helper()
	text := must.Value(os.ReadFile(h.log))(t)
	for l := range bytes.Lines(text) {
		must.Succeed(t, eventtest.Line(l))
		var line struct{ Event, Device string }
		must.Succeed(t, json.Unmarshal(l, &line))
		all += line.Event + " " + line.Device + "\n"
	}
	return all
}

func TestHookProcess(t *testing.T) {
	self := program(t)
	link := filepath.Join(t.TempDir(), "link")
	must.Succeed(t, os.Symlink(self, link))
	for _, test := range []struct {
		name, afu, path string
		flags           []string
		code            int
		stderr, logged  string
	}{
		{"loaded, without a look at nodes", bits.AFU, self, []string{"--device", "5e:00.0", "--dev-root", "/none"}, 0, "", "programming.present 5e:00.0\n"},
		{"by the entry of config.json", bits.AFU, link, nil, 0, "", "programming.present 5e:00.0\n"},
		{"another path", bits.AFU, "/none", nil, 0, "", "programming.present 3b:00.0\n"},
		{"no bitstream", bits.OtherAFU, self, []string{"--device", "5e:00.0"}, 1, "accelerator-fpga hook: FPGA_REGION_1, FPGA_AFU_1: card 5e:00.0: no bitstream for interface " + bits.Interface + " and AFU " + bits.OtherAFU +
			" in the store (file does not exist): want STORE/" + bits.Interface + "/" + bits.OtherAFU + ".gbs or .aocx, which accelerator-fpga install FILE writes\n", "programming.failed 5e:00.0\n"},
		{"--always", bits.AFU, self, []string{"--device", "5e:00.0", "--always"}, 1, "accelerator-fpga hook: FPGA_REGION_1, FPGA_AFU_1: card 5e:00.0: no bitstream for interface " + bits.Interface + " and AFU " + bits.AFU +
			" in the store (file does not exist): want STORE/" + bits.Interface + "/" + bits.AFU + ".gbs or .aocx, which accelerator-fpga install FILE writes\n", "programming.failed 5e:00.0\n"},
		{"--afu", bits.OtherAFU, self, []string{"--device", "5e:00.0", "--afu", bits.AFU}, 0, "", "programming.present 5e:00.0\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHookHost(t, test.afu, test.path)
			cmd, stderr := h.command(self, test.flags...)
			out, _ := cmd.Output()
			if got := strings.ReplaceAll(stderr.String(), h.dir+"/store", "STORE"); got != test.stderr || cmd.ProcessState.ExitCode() != test.code || len(out) > 0 {
				t.Errorf("exit code %d, want %d; stdout %q; stderr (-want +got):\n%s", cmd.ProcessState.ExitCode(), test.code, out, cmp.Diff(test.stderr, got))
			}
			compare.Values(t, "log", test.logged, h.logged(t))
		})
	}
}

// A card that is too hot isn't programmed.
func TestHookMaxTemperature(t *testing.T) {
	self := program(t)
	for _, test := range []struct{ limit, want string }{
		{"48", "too hot: 48.5 °C ("},
		{"off", "not the node of a driver"},
	} {
		t.Run(test.limit, func(t *testing.T) {
			h := newHookHost(t, bits.OtherAFU, self)
			h.install(t, bits.OtherAFU)
			cmd, stderr := h.command(self, "--device", "5e:00.0", "--max-temperature="+test.limit)
			err := cmd.Run()
			if !strings.Contains(stderr.String(), "card 5e:00.0, port 0: ") || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("%v, stderr %q, want %q", err, stderr, test.want)
			}
			compare.Values(t, "log", "programming.failed 5e:00.0\n", h.logged(t))
		})
	}
}

// An upgrade replaces the running program by renaming a file.
func TestHookReplaced(t *testing.T) {
	data := must.Value(os.ReadFile(program(t)))(t)
	path := filepath.Join(t.TempDir(), "accelerator-fpga")
	must.Succeed(t, os.WriteFile(path, data, 0o755))
	old := must.Value(os.Open(path))(t)
	defer old.Close()
	must.Succeed(t, os.WriteFile(path+".new", []byte("new"), 0o755))
	must.Succeed(t, os.Rename(path+".new", path))
	h := newHookHost(t, bits.AFU, path)
	cmd, stderr := h.command(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), old.Fd()))
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, %s", err, stderr)
	}
	compare.Equal(t, "log, with the card of the entry", "programming.present 5e:00.0\n", h.logged(t))
}

// A signal or the timeout ends a hook that is waiting for a card. The error says which card.
func TestHookEnds(t *testing.T) {
	for _, test := range []struct {
		name, timeout string
		signal        os.Signal
		want          string
	}{
		{"SIGTERM", "90s", syscall.SIGTERM, "terminated signal received"},
		{"SIGINT", "90s", syscall.SIGINT, "interrupt signal received"},
		{"time-out", "1ms", nil, "not done after 1ms (--timeout)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			self := program(t)
			h := newHookHost(t, bits.AFU, self)
			afu := filepath.Join(h.PortDir("0000:5e:00.0", 0), "afu_id")
			must.Succeed(t, os.Remove(afu))
			must.Succeed(t, syscall.Mkfifo(afu, 0o600))
			cmd, stderr := h.command(self, "--device", "5e:00.0", "--timeout", test.timeout)
			must.Succeed(t, cmd.Start())
			// Once this returns, the hook is reading the attribute.
			defer must.Value(os.OpenFile(afu, os.O_WRONLY, 0))(t).Close()
			if test.signal != nil {
				must.Succeed(t, cmd.Process.Signal(test.signal))
			}
			_ = cmd.Wait() // its exit code is checked below
			compare.Values(t, "stderr", "accelerator-fpga hook: cards of the container: no answer: "+test.want+"\n", stderr.String())
			compare.Equal(t, "exit code", 1, cmd.ProcessState.ExitCode())
		})
	}
}

// If its runtime was killed, a hook doesn't start programming, because the card may be in another pod by now.
func TestHookOrphaned(t *testing.T) {
	self := program(t)
	h := newHookHost(t, bits.OtherAFU, self)
	h.install(t, bits.OtherAFU)
	afu := filepath.Join(h.PortDir("0000:5e:00.0", 0), "afu_id")
	must.Succeed(t, os.Rename(afu, afu+".later"))
	must.Succeed(t, syscall.Mkfifo(afu, 0o600))
	runtime, _ := h.command(self, "--device", "5e:00.0")
	runtime.Args[0], runtime.Stderr = "runtime", nil
	stderr := must.Value(runtime.StderrPipe())(t)
	must.Succeed(t, runtime.Start())
	held := must.Value(os.OpenFile(afu, os.O_WRONLY, 0))(t) // the hook is reading it
	must.Succeed(t, os.Rename(afu+".later", afu))
	must.Succeed(t, runtime.Process.Kill())
	must.Value(runtime.Process.Wait())(t)
	must.Value(held.WriteString(bits.AFU + "\n"))(t)
	held.Close()
	want := "accelerator-fpga hook: FPGA_REGION_1, FPGA_AFU_1: card 5e:00.0, port 0: the container runtime has exited in the meantime: nothing was programmed\n"
	compare.Values(t, "stderr", want, string(must.Value(io.ReadAll(stderr))(t)))
}

// The entries in config.json are parsed like a command line.
func TestParseHook(t *testing.T) {
	for _, test := range []struct {
		args string
		want hook.Flags
		err  string
	}{
		{"accelerator-fpga hook --device 3b:00.0", hook.Flags{Devices: []string{"3b:00.0"}}, ""},
		{"accelerator-fpga hook --device 3b:00.0 --device=5e:00.0 --afu a --sysfs-root /sim --timeout 1s", hook.Flags{Devices: []string{"3b:00.0", "5e:00.0"}, AFU: "a"}, ""},
		{"any --store /x hook --device 3b:00.0", hook.Flags{Devices: []string{"3b:00.0"}}, ""},
		{"accelerator-fpga hook", hook.Flags{}, ""},
		{"accelerator-fpga list", hook.Flags{}, ""},
		{"accelerator-fpga", hook.Flags{}, ""},
		{"", hook.Flags{}, ""},
		{"accelerator-fpga hook --later 1", hook.Flags{}, "unknown flag: --later"},
		{"accelerator-fpga hook --device", hook.Flags{}, "flag needs an argument: --device"},
		{"accelerator-fpga hok --device 3b:00.0", hook.Flags{}, "unknown"},
	} {
		got, err := parseHook(strings.Fields(test.args))
		if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); test.err == "" && diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.args, diff)
		}
		compare.Outcome(t, test.args, test.err, err)
	}
}

func TestHookUsage(t *testing.T) {
	for _, line := range []string{"hook --afu a", "hook --device 3b:00.0 --afu=", "hook x"} {
		compare.Equal(t, line+": exit code", 2, run(t.Context(), strings.Fields(line), io.Discard, io.Discard))
	}
}
