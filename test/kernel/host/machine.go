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

// slots is the number of card slots: rp0 to rp3, on PCI buses 01 to 04.
const slots = 4

// functions is the maximum number of functions per slot.
const functions = 8

// memory is the size of the guest's memory. qemu's proxy requires it to be a memfd that is shared with the cards.
const memory = "512M"

// machine is the running guest.
type machine struct {
	process *exec.Cmd
	dir     string // directory for the sockets
	console string
	control net.Conn // the guest's second serial port
	qmp     *qmp
	tasks   sync.WaitGroup // a goroutine per function, and the QMP reader

	cards map[string]*card // by name; used only by the goroutine that runs serve
}

// boot starts qemu and waits until it has connected to both sockets.
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
	// Write qemu's output to a file, because qemu logs every access to a card that has just been removed.
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

// connect accepts qemu's two connections. If qemu hasn't connected when the timeout expires or ctx is done, connect
// closes both listeners and returns an error.
func (m *machine) connect(ctx context.Context, control, monitor net.Listener) error {
	ctx, cancel := context.WithTimeout(ctx, qemuTimeout)
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

// wait waits until qemu and all of the machine's goroutines have ended.
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
		// Don't use KVM: a stock guest hangs under nested KVM.
		"-accel", "tcg", "-cpu", "qemu64", "-smp", fmt.Sprint(o.cpus), "-m", memory,
		"-object", "memory-backend-memfd,id=ram,share=on,size=" + memory,
		// Use ACPI hot-plug, q35's default. It removes a card in 0.1 s, while native pciehp takes 6 s.
		"-machine", "q35,memory-backend=ram,hpet=off,vmport=off,smbus=off,sata=off,usb=off",
		"-serial", "file:" + m.console,
		"-serial", "unix:" + filepath.Join(m.dir, "control"),
		"-serial", "file:" + filepath.Join(o.out, "guest.tar.gz"),
		"-qmp", "unix:" + filepath.Join(m.dir, "qmp"),
		"-kernel", o.kernel, "-initrd", image,
		"-append", "console=ttyS0 panic=-1 quiet tsc=reliable no_timer_check nokaslr mitigations=off only=" + o.only + " stories=" + o.stories,
	}
	if o.iommu {
		// vfio needs interrupt remapping. The nvme device can have virtual functions only in a subsystem, and
		// subsystems can't be hot-plugged, so add one now.
		args[len(args)-1] += " intel_iommu=on"
		args = append(args, "-device", "intel-iommu,intremap=on", "-device", "nvme-subsys,id=subsystem")
	}
	if o.count {
		args = append(args, "-icount", "shift=0")
	}
	reserved := ""
	if o.xrt {
		reserved = ",mem-reserve=192M" // room for a hot-plugged card with a large BAR
	}
	for i := range slots {
		args = append(args, "-device", fmt.Sprintf("pcie-root-port,id=rp%d,chassis=%d,slot=%d,port=%d%s", i, i+1, i+1, i, reserved))
	}
	return args
}
