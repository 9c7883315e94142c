package hook_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/programming"
	bits "b-com.com/accelerator-device-plugin/programming/bitstreamtest"
	"b-com.com/accelerator-device-plugin/programming/fpga"
	"b-com.com/accelerator-device-plugin/programming/hook"
)

// A process of this test binary with HOOK_DIR is a hook on the simulated node there.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HOOK_DIR"); dir != "" {
		os.Exit(hookProcess(dir))
	}
	os.Exit(m.Run())
}

// hookProcess runs a hook. It programs as [fpga.Programmer] does, under the lock of the card and
// after another look, but on a file, and announces each step on stdout. Between
// the steps it waits for a line, which its parent writes to descriptor 3.
func hookProcess(dir string) int {
	host := fpga.Host{Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev")}
	parent := bufio.NewReader(os.NewFile(3, "parent"))
	h := hook.Hook{Self: self, Host: host, Store: programming.Store(filepath.Join(dir, "store")), Log: zap.NewNop()}
	h.Program = func(ctx context.Context, card fpga.Card, port fpga.Port, b *programming.Bitstream) error {
		fmt.Println("locking")
		lock, err := programming.AcquireLock(ctx, filepath.Join(dir, "locks"), card.FMEAddress)
		if err != nil {
			return err
		}
		defer lock.Release()
		now, _, err := fpga.Find(host, card.Address)
		if err != nil || now.Ports[0].AFUID == b.AFUID {
			return err
		}
		fmt.Println("programming")
		if _, err := parent.ReadString('\n'); err != nil {
			return err
		}
		path, err := filepath.EvalSymlinks(filepath.Join(host.Sys, "bus/pci/devices", card.Address))
		files, gerr := filepath.Glob(filepath.Join(path, "fpga_region/*", port.Name, "afu_id"))
		if err := errors.Join(err, gerr); err != nil || len(files) != 1 {
			return fmt.Errorf("%q, %w", files, err)
		}
		return os.WriteFile(files[0], []byte(b.AFUID+"\n"), 0o644)
	}
	if err := h.Run(context.Background(), os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("done")
	return 0
}

// process is a hook under way.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Scanner
	in  *os.File
}

func (h *host) start(config any) *process {
	h.t.Helper()
	program, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command(program)
	cmd.Env, cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = []string{"HOOK_DIR=" + h.dir}, h.bundle(config), os.Stderr, []*os.File{read}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { write.Close(); cmd.Process.Kill(); cmd.Wait() })
	return &process{h.t, cmd, bufio.NewScanner(stdout), write}
}

func (p *process) await(want string) {
	p.t.Helper()
	if !p.out.Scan() || p.out.Text() != want {
		p.t.Fatalf("%q, %v, want %q", p.out.Text(), p.out.Err(), want)
	}
}

func (p *process) proceed() {
	p.t.Helper()
	if _, err := p.in.WriteString("\n"); err != nil {
		p.t.Fatal(err)
	}
}

// Two hooks at once for one card, as when the runtime of the first was killed: the second waits,
// and finds the card programmed.
func TestTwoAtOnce(t *testing.T) {
	h := newHost(t)
	config := container(pairEnv(1, bits.OtherAFU), []string{"/dev/dfl-port.0"})
	orphan := h.start(config)
	orphan.await("locking")
	orphan.await("programming")
	again := h.start(config)
	again.await("locking")
	orphan.proceed()
	orphan.await("done")
	again.await("done")
	if h.afus() != "B A" {
		t.Errorf("cards hold %s", h.afus())
	}
}

// A killed hook leaves no lock, and the next hook programs the card.
func TestKilled(t *testing.T) {
	h := newHost(t)
	config := container(pairEnv(1, bits.OtherAFU), []string{"/dev/dfl-port.0"})
	killed := h.start(config)
	killed.await("locking")
	killed.await("programming")
	again := h.start(config)
	again.await("locking")
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	again.await("programming")
	again.proceed()
	again.await("done")
	if h.afus() != "B A" {
		t.Errorf("cards hold %s", h.afus())
	}
	left, err := filepath.Glob(filepath.Join(h.dir, "*/.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
