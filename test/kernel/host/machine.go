package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// slots is the number of slots for cards: rp0 to rp3, PCI buses 01 to 04.
const slots = 4

// functions is how many a slot can have.
const functions = 8

// memory of the guest. Cards reach it through a shared memfd, as qemu's proxy wants it.
const memory = "512M"

// machine is the running guest.
type machine struct {
	process *exec.Cmd
	dir     string // of the sockets
	console string
	control net.Conn // the guest's second serial port
	qmp     *qmp
	tasks   sync.WaitGroup // one for each card, and the reader of QMP

	cards map[string]*card // by name; of serve alone
}

// boot starts qemu and waits until both of its sockets are connected.
func boot(ctx context.Context, image string, o options) (*machine, error) {
	dir, err := os.MkdirTemp("", "test-kernel-")
	if err != nil {
		return nil, err
	}
	m := &machine{dir: dir, console: filepath.Join(o.out, "console.log"), cards: map[string]*card{}}
	control, err := net.Listen("unix", filepath.Join(dir, "control"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer control.Close()
	monitor, err := net.Listen("unix", filepath.Join(dir, "qmp"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer monitor.Close()

	m.process = exec.CommandContext(ctx, "qemu-system-x86_64", m.arguments(image, o)...)
	// It complains of every access to a card that has just gone.
	log, err := os.Create(filepath.Join(o.out, "qemu.log"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer log.Close()
	m.process.Stdout, m.process.Stderr = log, log
	m.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.process.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := m.connect(ctx, control, monitor); err != nil {
		_ = m.process.Process.Kill()
		return nil, errors.Join(fmt.Errorf("%w (see %s)", err, log.Name()), m.wait())
	}
	return m, nil
}

// connect takes qemu's connections. A qemu that dies before, at once or at the end
// of ctx, makes none: then both listeners are closed.
func (m *machine) connect(ctx context.Context, control, monitor net.Listener) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { control.Close(); monitor.Close() })()
	conn, err := control.Accept()
	if err != nil {
		return fmt.Errorf("serial port: %w", err)
	}
	m.control = conn
	if conn, err = monitor.Accept(); err != nil {
		return fmt.Errorf("QMP: %w", err)
	}
	m.qmp = newQMP(conn.(*net.UnixConn))
	m.tasks.Go(m.qmp.read)
	return m.qmp.greet()
}

// wait returns when qemu has ended, and everything else here with it.
func (m *machine) wait() error {
	err := m.process.Wait()
	if m.control != nil {
		_ = m.control.Close()
	}
	m.tasks.Wait()
	return errors.Join(err, os.RemoveAll(m.dir))
}

func (m *machine) arguments(image string, o options) []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-vga", "none", "-no-reboot",
		// Not KVM: where it is of the nested kind, a stock guest hangs.
		"-accel", "tcg", "-cpu", "qemu64", "-smp", fmt.Sprint(o.cpus), "-m", memory,
		"-object", "memory-backend-memfd,id=ram,share=on,size=" + memory,
		// With ACPI hot-plug, q35's default, a card is out in 0.1 s; with native pciehp in 6 s.
		"-machine", "q35,memory-backend=ram,hpet=off,vmport=off,smbus=off,sata=off,usb=off",
		"-serial", "file:" + m.console,
		"-serial", "unix:" + filepath.Join(m.dir, "control"),
		"-serial", "file:" + filepath.Join(o.out, "guest.tar.gz"),
		"-qmp", "unix:" + filepath.Join(m.dir, "qmp"),
		"-kernel", o.kernel, "-initrd", image,
		"-append", "console=ttyS0 panic=-1 quiet tsc=reliable no_timer_check nokaslr mitigations=off only=" + o.only,
	}
	if o.count {
		args = append(args, "-icount", "shift=0")
	}
	for i := range slots {
		args = append(args, "-device", fmt.Sprintf("pcie-root-port,id=rp%d,chassis=%d,slot=%d,port=%d", i, i+1, i+1, i))
	}
	return args
}
