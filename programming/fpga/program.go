package fpga

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/programming"
)

// Programmer programs a node's cards.
type Programmer struct {
	Host    Host
	LockDir string            // directory of the lock files, one per FME
	Store   programming.Store // where AOCX files are unpacked
	Always  bool              // program a port even if it already has the AFU
	Max     MaxTemperature    // reject cards that are hotter than this
	// Begin, if not nil, is called with the lock held, before Program opens any device nodes. If Begin fails, Program
	// returns its error.
	Begin func() error

	do   ioctl // nil means ioctlDriver
	open open  // nil means syscall.Open
}

// ErrLoaded is returned by [Programmer.Program] if the port already has the bitstream's AFU.
var ErrLoaded = errors.New("the port has the AFU already")

// Program programs one of a card's ports. It first waits for the FME's lock, and returns once the port has the
// bitstream's AFU, or when ctx is done. If the port turns out to have the AFU already (see [Loaded]), because another
// process was faster, Program returns [ErrLoaded].
//
// Program also returns an error if [Fits] or [MaxTemperature.Check] does, or if another process has the FME or the port
// open. Each error is a single line that names the card and says what to do.
func (p Programmer) Program(ctx context.Context, card Card, port Port, b *programming.Bitstream) error {
	if port.Number < 0 {
		return fmt.Errorf("card %s, %s: found no driver, want it bound: %s", card.ID(), port.Name, card.Rebind())
	}
	return within(ctx, card, port.Number, func() error { return p.program(ctx, card, port.Number, b) })
}

// Release detaches a port from the physical function, so that a virtual function can use it. The driver refuses to do
// so while a process has the port open.
func (p Programmer) Release(ctx context.Context, card Card, number int) error {
	return within(ctx, card, number, func() error {
		return p.move(ctx, card, number, "release", func(r requests) uintptr { return r.release })
	})
}

// Assign gives a released port back to the physical function.
func (p Programmer) Assign(ctx context.Context, card Card, number int) error {
	return within(ctx, card, number, func() error {
		return p.move(ctx, card, number, "assign", func(r requests) uintptr { return r.assign })
	})
}

// within runs work, which should return when ctx is done. If work is still blocked in a request or an attribute read at
// that point, within returns anyway, and the process should exit. Even then, the kernel keeps the process's lock on the
// card until the request has returned.
func within(ctx context.Context, card Card, number int, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		const grace = 200 * time.Millisecond // so that work can still return its error, which includes the cause
		select {
		case err = <-done:
		case <-time.After(grace):
			err = fmt.Errorf("the driver has not answered (%w): the request continues, accelerator-fpga portinfo shows its result",
				context.Cause(ctx))
		}
	}
	if err != nil {
		return fmt.Errorf("card %s, port %d: %w", card.ID(), number, err)
	}
	return nil
}

func (p Programmer) program(ctx context.Context, card Card, number int, b *programming.Bitstream) error {
	t, err := p.take(ctx, card)
	if err != nil {
		return err
	}
	defer t.lock.Release()
	port, err := t.card.Port(number)
	if err == nil {
		err = Fits(t.card, port, b)
	}
	if err != nil {
		return err
	}
	if Loaded(port, b) && !p.Always {
		return ErrLoaded
	}
	if err := p.Max.Check(ctx, p.Host, t.card); err != nil {
		return err
	}
	data, err := b.Map(ctx, p.Store)
	if err != nil {
		return err
	}
	defer data.Close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.Begin != nil {
		if err := p.Begin(); err != nil {
			return err
		}
	}
	fme, err := p.openNode(t.fme, syscall.O_EXCL)
	if err != nil {
		return err
	}
	// Unpacking an AOCX takes seconds, so another card may be in the slot by now.
	id, err := t.readInterfaceID()
	if err == nil && id != b.InterfaceID {
		err = fmt.Errorf("interface: found %q, want %q: another card has taken its place", id, b.InterfaceID)
	}
	portDir := t.portDir(port.Name)
	unused := -1
	if err == nil {
		unused, err = p.openNode(portDir, syscall.O_EXCL)
	}
	if err != nil {
		syscall.Close(fme)
		return err
	}
	syscall.Close(unused)
	text, err := t.programPort(p.ioctl(), fme, number, data.Data)
	syscall.Close(fme) // before reading the card; see doc.go
	if err != nil {
		return t.explain(err, portDir, text)
	}
	return t.readBack(ctx, portDir, b)
}

func (p Programmer) move(ctx context.Context, card Card, number int, verb string, request func(requests) uintptr) error {
	const most = 255 // the largest port number in sysfs, even though requests have 32 bits for it
	if number < 0 || number > most {
		return fmt.Errorf("%s: found port number %d, want 0 to %d", verb, number, most)
	}
	t, err := p.take(ctx, card)
	if err != nil {
		return err
	}
	defer t.lock.Release()
	fme, err := p.openNode(t.fme, 0)
	if err != nil {
		return err
	}
	err = t.movePort(p.ioctl(), fme, request(t.requests), number)
	syscall.Close(fme)
	if err == nil {
		return nil
	}
	// For the meaning of these errors, see dfl_fpga_cdev_release_port and dfl_fpga_cdev_assign_port in
	// drivers/fpga/dfl.c. fme_ioctl turns ENODEV into EINVAL.
	hint := remedy(err)
	port, absent := t.card.Port(number)
	switch {
	case errors.Is(err, syscall.EBUSY) && absent == nil && verb == "release":
		hint = fmt.Sprintf(": another process has the port open: %s/%s: can-pull names it", p.Host.Dev, port.Name)
	case errors.Is(err, syscall.EBUSY):
		hint = fmt.Sprintf(": the port is %sed already", strings.TrimSuffix(verb, "e"))
	case errors.Is(err, syscall.EINVAL):
		hint = ": the card has no such port, or has left: accelerator-fpga fmeinfo --device " + card.FMEAddress
	}
	return fmt.Errorf("%s: %w%s", verb, err, hint)
}

func (p Programmer) ioctl() ioctl {
	if p.do != nil {
		return p.do
	}
	return ioctlDriver
}

var errNoFME = errors.New("the card has no FME: program a virtual function on the host that has its physical function")

// Loaded reports whether the port had the bitstream's AFU when it was last read. It returns false for every AOCX, and
// for a GBS whose AFU ID is [programming.OpenCL], because all AOCX files share that ID.
func Loaded(port Port, b *programming.Bitstream) bool {
	return b.Format == programming.GBS && b.AFUID != programming.OpenCL && port.AFUID == b.AFUID
}

// Fits returns an error unless the bitstream can be used to program the port, based on what was last read from the card
// and the port.
func Fits(card Card, port Port, b *programming.Bitstream) error {
	switch {
	case sysfs.AllOnes(b.InterfaceID) || sysfs.AllOnes(b.AFUID):
		return fmt.Errorf("%s: found an id of all f, want the ids of an interface and an AFU", b.Path)
	case card.FME == "":
		return errNoFME
	case card.InterfaceErr != nil:
		return card.InterfaceErr
	case card.InterfaceID == "":
		return fmt.Errorf("%s has no interface ID: bind its driver, which lspci -k shows", card.FME)
	case sysfs.AllOnes(card.InterfaceID) || sysfs.AllOnes(port.AFUID):
		return errors.New("the card does not answer, its ids are all f: reset it or its slot, or power the node off and on")
	case card.InterfaceID != b.InterfaceID:
		return fmt.Errorf("%s: found interface %s, want %s of the card", b.Path, b.InterfaceID, card.InterfaceID)
	case errors.Is(port.AFUErr, syscall.EBUSY):
		return fmt.Errorf("%w: the port is disabled, because another tool programs it or a programming has failed: enable it with %s",
			port.AFUErr, card.Rebind())
	case errors.Is(port.AFUErr, fs.ErrNotExist):
		return fmt.Errorf("%s has no AFU id, so the result could not be verified", port.Name)
	}
	return port.AFUErr
}

// taken is a card whose lock this process holds, as read after the lock was acquired.
type taken struct {
	place
	card Card
	lock *privatedir.Lock
}

// take acquires a card's lock and then rereads the card, because a different one may be at its address by now.
func (p Programmer) take(ctx context.Context, card Card) (t taken, err error) {
	if card.FME == "" {
		return t, errNoFME
	}
	if t.lock, err = programming.AcquireLock(ctx, p.LockDir, card.FMEAddress); err != nil {
		return t, err
	}
	defer func() {
		if err != nil {
			t.lock.Release()
		}
	}()
	if t.place, err = placeOf(p.Host, card); err != nil {
		return t, err
	}
	t.card = t.read()
	if t.card.FMEAddress != card.FMEAddress || t.card.InterfaceID != card.InterfaceID {
		return t, fmt.Errorf("found FME at %q with interface %q, want %q and %q: another card has taken its place", t.card.FMEAddress, t.card.InterfaceID, card.FMEAddress, card.InterfaceID)
	}
	return t, nil
}

// open opens a device node. Tests replace it.
type open func(path string, flags int, perm uint32) (fd int, err error)

// openNode opens the device node of the FME or port whose sysfs directory is dir.
func (p Programmer) openNode(dir string, flag int) (fd int, err error) {
	h, open, name := p.Host, p.open, base(dir)
	if open == nil {
		open = syscall.Open
	}
	path := h.Dev + "/" + name
	number, err := sysfs.ReadAs(dir+"/dev", sysfs.ParseDeviceNumber)
	if err := h.CheckNode(name, number, err); err != nil {
		return -1, err
	}
	fd, err = open(path, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|flag, 0)
	switch {
	case err == syscall.EBUSY:
		return -1, fmt.Errorf("%s: %w: another process has it open: can-pull names it", path, err)
	case err != nil:
		return -1, fmt.Errorf("%s: %w%s", path, err, remedy(err))
	}
	// Check again, because the device node may have been replaced just before it was opened, or its number may have
	// been reused for a different card.
	var st syscall.Stat_t
	err = syscall.Fstat(fd, &st)
	if err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFCHR {
		var now sysfs.DeviceNumber
		if now, err = sysfs.ReadAs(dir+"/dev", sysfs.ParseDeviceNumber); err == nil && (now != number || sysfs.NodeNumber(uint64(st.Rdev)) != number) {
			err = sysfs.ErrNodeMismatch
		}
	} else if err == nil && !h.Simulated {
		err = sysfs.ErrNodeMismatch
	}
	if err != nil {
		syscall.Close(fd)
		return -1, fmt.Errorf("%s: %w", path, err)
	}
	return fd, nil
}

// remedy returns what the user can do about an error from a device node, or "" if we don't know.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return ": want root, outside of a container that may not use the node"
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		return ": the card has left, or its driver: lspci -k"
	case errors.Is(err, syscall.ENOTTY):
		return ": not the node of a driver: a simulated card cannot be programmed"
	}
	return ""
}

// explain adds to the error from a programming request what the card and its driver report, and what the user can do.
func (t taken) explain(err error, portDir, text string) error {
	if _, gone := os.Lstat(portDir); errors.Is(gone, fs.ErrNotExist) {
		return fmt.Errorf("programming: %w: the card has left meanwhile", err)
	}
	hint := remedy(err)
	switch {
	case errors.Is(err, syscall.EIO):
		hint = fmt.Sprintf(": the card reports %s, want a bitstream that is whole and made for it: build or copy it anew",
			cmp.Or(text, t.managerStatus(), "no reason"))
	case errors.Is(err, syscall.ETIMEDOUT):
		hint = ": the card did not finish in time: it was pulled, or does not answer; reset it or its slot, or power the node off and on"
	case errors.Is(err, syscall.EINVAL):
		// According to fme_pr in dfl-fme-pr.c, either the FME is being removed, or the bridges can't be disabled
		// because the card is dead. The port number can't be the cause, because the port existed a moment ago.
		hint = ": the driver refuses the request, want a card that answers: dmesg"
		if t.name == "opae" {
			hint += "; or the length of the raw bitstream is not a multiple of 4"
		}
	case errors.Is(err, syscall.EFAULT):
		hint = ": the file became shorter in the meantime: replace files with accelerator-fpga install"
	case errors.Is(err, syscall.ENOMEM):
		hint = ": the kernel has no memory for a copy of the bitstream"
	}
	if _, busy := sysfs.Read(portDir + "/afu_id"); errors.Is(busy, syscall.EBUSY) {
		hint += "; the port stays disabled until " + t.card.Rebind()
	}
	return fmt.Errorf("programming: %w%s", err, hint)
}

// managerStatus returns the errors from a dfl card's FPGA manager on one line (status_show, drivers/fpga/fpga-mgr.c).
func (t taken) managerStatus() string {
	files, _ := fs.Glob(os.DirFS(t.fme), t.status) // the only possible error is a malformed pattern
	for _, file := range files {
		if text, err := sysfs.Read(t.fme + "/" + file); err == nil && text != "" {
			return strings.ReplaceAll(text, "\n", ", ")
		}
	}
	return ""
}

// readBack waits up to a second for the port to report the bitstream's AFU ID. A second is enough, because the driver
// enables the port before the request returns.
func (t taken) readBack(ctx context.Context, portDir string, b *programming.Bitstream) error {
	const most, interval = time.Second, 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		id, err := sysfs.ReadAs(portDir+"/afu_id", sysfs.ParseID)
		switch {
		case err == nil && id == b.AFUID:
			return nil
		case errors.Is(err, fs.ErrNotExist): // the request succeeds even if the card is pulled meanwhile
			return fmt.Errorf("programmed, but not verified: %w", errLeft)
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		switch {
		case errors.Is(err, syscall.EBUSY):
			return fmt.Errorf("%w after programming: the port stays disabled until %s", err, t.card.Rebind())
		case err != nil:
			return fmt.Errorf("programmed, but not verified: %w", err)
		}
		return fmt.Errorf("AFU after programming: found %s, want %s of %s: package the bitstream with the id of its AFU", id, b.AFUID, b.Path)
	}
}

// Rebind returns a shell command that unbinds and rebinds the card's driver, which enables the card's ports. This is
// needed after a programming failure, because a dfl port stays disabled until its driver is rebound (disable_count,
// dfl-afu-main.c), and after Assign, because the port doesn't have a driver then.
func (c Card) Rebind() string {
	i := slices.IndexFunc(drivers, func(d *driver) bool { return d.name == c.Driver })
	return fmt.Sprintf("for f in unbind bind; do echo %s > /sys/bus/pci/drivers/%s/$f; done", c.Address, drivers[max(i, 0)].pci)
}
