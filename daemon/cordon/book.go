package cordon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/dirwatch"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

const (
	lockWithin = 3 * time.Second  // maximum wait for the lock; another daemon only holds it for one write
	diskWithin = 5 * time.Second  // time limit for one access to the state directory
	leaveAfter = time.Second      // how long Run waits for a hanging file system before it returns
	recheck    = 30 * time.Second // maximum time between reads of the file, in case events are lost or the clock is set
)

// Book holds a node's cordons. Create it with [Open].
type Book struct {
	dir     string // the state directory; "" if there is none
	log     *zap.Logger
	cordons *latest.Value[[]Cordon] // in force, sorted

	disk  *privatedir.Turns // its turn is held from before the file is read or written until the cordons are published
	mu    sync.Mutex        // held while cordons are being published
	fault string            // the last error that was logged; "" after a success
}

// Open reads the cordons from the state directory, creating the directory if needed. If dir is "", there are no
// cordons, and Add returns an error.
//
// If the directory can't be used, Open logs a warning, and each Add and Remove tries again. Open only returns an error
// if the file exists but can't be read, because if the daemon went on, it would advertise cordoned cards.
func Open(dir string, log *zap.Logger) (*Book, error) {
	b := &Book{dir: dir, log: log.Named("cordon"), cordons: latest.New[[]Cordon](nil), disk: privatedir.NewTurns(dir)}
	if dir == "" {
		return b, nil
	}
	root, err := privatedir.OpenDir(dir, true)
	if err == nil {
		defer root.Close()
		var all []Cordon
		if all, err = read(root); err == nil || errors.Is(err, fs.ErrNotExist) {
			b.publish(all, fromFile, "")
			return b, nil
		}
	}
	if _, none := os.Lstat(filepath.Join(dir, fileName)); none == nil {
		return nil, err
	}
	b.fault = err.Error()
	b.log.Warn("cordons cannot be stored, none are in force", logevent.CordonUnavailable, logevent.Err(err))
	return b, nil
}

// List returns the cordons in force, sorted by device. They are read-only.
func (b *Book) List() []Cordon {
	all, _ := b.cordons.Load()
	return all
}

// Find returns the cordon in force for a device, or nil if there is none. See the [Find] function.
func (b *Book) Find(id string, members ...string) *Cordon { return Find(b.List(), id, members...) }

// Changed returns a channel that is closed the next time the list changes.
func (b *Book) Changed() <-chan struct{} {
	_, stale := b.cordons.Load()
	return stale
}

// Add cordons devices for the given time or, if during is 0, until they are uncordoned. It returns their cordons. If a
// device is already cordoned, its Since doesn't change. If there is an error, nothing has changed, with one exception:
// if ctx is done or the file system hangs during the write, the write may still complete later.
func (b *Book) Add(ctx context.Context, devices []string, by, why string, during time.Duration) ([]Cordon, error) {
	devices, err := parseDevices(devices)
	if err != nil {
		return nil, err
	}
	if during < 0 {
		return nil, fmt.Errorf("for: found %s, want a duration such as 2h", during)
	}
	return b.change(ctx, devices, by, func(all []Cordon) ([]Cordon, error) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		for _, device := range devices {
			c := Cordon{Device: device, By: by, Why: why, Since: now}
			if during > 0 {
				c.Until = now.Add(max(during, time.Millisecond))
			}
			i := slices.IndexFunc(all, func(c Cordon) bool { return c.Device == device })
			if i >= 0 {
				if all[i].Since.Before(now) { // otherwise the clock was set back
					c.Since = all[i].Since
				}
				all[i] = c
			} else {
				all = append(all, c)
			}
			if err := c.check(); err != nil {
				return nil, err
			}
		}
		return all, nil
	})
}

// Remove ends the devices' cordons and returns them. Errors are as in [Book.Add].
func (b *Book) Remove(ctx context.Context, devices []string, by string) ([]Cordon, error) {
	devices, err := parseDevices(devices)
	if err == nil {
		err = checkText("by", by, maxBy)
	}
	if err != nil {
		return nil, err
	}
	return b.change(ctx, devices, by, func(all []Cordon) ([]Cordon, error) {
		var entries []string
		for _, c := range all {
			entries = append(entries, c.Device)
		}
		for _, device := range devices {
			card, _, _ := strings.Cut(device, "-")
			switch {
			case slices.Contains(entries, device):
			case slices.Contains(entries, card):
				return nil, fmt.Errorf("device: found %s, want %s: the whole card is cordoned", device, card)
			case len(entries) == 0:
				return nil, fmt.Errorf("device %s is not cordoned, and no other device is", device)
			default:
				return nil, fmt.Errorf("device: found %s, want one that is cordoned: %s", device, strings.Join(entries, ", "))
			}
		}
		return slices.DeleteFunc(all, func(c Cordon) bool { return slices.Contains(devices, c.Device) }), nil
	})
}

// parseDevices parses the devices and returns them sorted and without duplicates.
func parseDevices(devices []string) ([]string, error) {
	if len(devices) == 0 {
		return nil, errors.New("device: found none, want the PCI address of a card, such as 3b:00.0, or of a port, 3b:00.0-p1")
	}
	var all []string
	for _, text := range devices {
		device, err := sysfs.ParseDevice(text)
		if err != nil {
			return nil, fmt.Errorf("device: found %.100q, %w", text, err)
		}
		all = append(all, device)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// change applies edit to the cordons in force and writes the result to the file. For each device, it returns the new
// cordon or, if the device is no longer cordoned, the removed one.
func (b *Book) change(ctx context.Context, devices []string, by string, edit func([]Cordon) ([]Cordon, error)) ([]Cordon, error) {
	if b.dir == "" {
		return nil, errors.New("--state-dir: found none, want a directory for the cordons")
	}
	changed := make(chan []Cordon, 1)
	err := b.disk.Within(ctx, diskWithin, func(ctx context.Context) error {
		all, err := b.edit(ctx, devices, by, edit)
		changed <- all
		return err
	})
	select {
	case all := <-changed:
		return all, err
	default: // the file system hangs
		return nil, err
	}
}

// edit implements [Book.change]. It may block.
func (b *Book) edit(ctx context.Context, devices []string, by string, edit func([]Cordon) ([]Cordon, error)) ([]Cordon, error) {
	dir, err := privatedir.OpenDir(b.dir, true)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	locking, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	lock, err := privatedir.AcquireLock(locking, dir, lockName)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	all, err := read(dir)
	if errors.Is(err, fs.ErrNotExist) { // the file has been removed, or there was none; write a new one
		all, err = b.List(), nil
	}
	if err != nil {
		return nil, err
	}
	before := b.publish(all, fromFile, "") // includes another daemon's changes
	after, err := edit(slices.Clone(before))
	if ctx.Err() != nil { // the caller has given up
		return nil, context.Cause(ctx)
	}
	if err == nil {
		after, err = write(dir, after)
	}
	if after == nil {
		return nil, err
	}
	after = b.publish(after, byCommand, by)
	both := append(slices.Clone(after), before...)
	var changed []Cordon
	for _, device := range devices {
		if i := slices.IndexFunc(both, func(c Cordon) bool { return c.Device == device }); i >= 0 {
			changed = append(changed, both[i])
		}
	}
	return changed, err
}

// Values of the reason field in the log events device.cordoned and device.uncordoned.
const (
	byCommand = "command"
	fromFile  = "file" // the cordon was in the file at startup, or another daemon has changed the file
	expired   = "expired"
)

// publish makes the given cordons take effect, except expired ones, logs what has changed, and returns the cordons now
// in force. by is the name of the user who removed cordons, or "" if not known.
func (b *Book) publish(all []Cordon, reason, by string) []Cordon {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.store(all, reason, by)
}

// expire ends cordons that have expired, but leaves them in the file.
func (b *Book) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store(b.List(), expired, "")
}

// store implements [Book.publish]. The caller must hold mu.
func (b *Book) store(all []Cordon, reason, by string) []Cordon {
	now := time.Now()
	all = slices.DeleteFunc(slices.Clone(all), func(c Cordon) bool { return c.ended(now) })
	old := b.List()
	if slices.Equal(all, old) {
		return old
	}
	b.cordons.Store(all)
	for _, c := range old {
		if _, still := slices.BinarySearchFunc(all, c, byDevice); still {
			continue
		}
		reason, by := reason, by
		if c.ended(now) {
			reason, by = expired, ""
		}
		b.log.Info("device uncordoned", logevent.DeviceUncordoned, logevent.Device(c.Device), logevent.By(by), logevent.Why(c.Why),
			logevent.Until(c.Until), logevent.Reason(reason))
	}
	for _, c := range all {
		if !slices.Contains(old, c) {
			b.log.Info("device cordoned", logevent.DeviceCordoned, logevent.Device(c.Device), logevent.By(c.By), logevent.Why(c.Why),
				logevent.Until(c.Until), logevent.Reason(reason))
		}
	}
	return all
}

// Run ends expired cordons and applies the changes that other daemons make to the file, until ctx is done. It then
// returns nil. Cordons expire even while the file system hangs.
func (b *Book) Run(ctx context.Context) error {
	if b.dir == "" {
		<-ctx.Done()
		return nil
	}
	return b.run(ctx, dirwatch.Run)
}

func (b *Book) run(ctx context.Context, watch func(context.Context, dirwatch.Config, func())) error {
	touched := latest.NewSignal()
	var tasks sync.WaitGroup
	defer func() {
		_ = privatedir.Within(context.WithoutCancel(ctx), leaveAfter, func() error { tasks.Wait(); return nil })
	}()
	tasks.Go(func() {
		watch(ctx, dirwatch.Config{
			Dirs: []string{filepath.Clean(b.dir)}, Concerns: func(e notify.Event) bool { return filepath.Base(e.Name) == fileName },
			Interval: recheck, Blind: recheck, Log: b.log,
		}, touched.Raise)
	})
	for ctx.Err() == nil {
		file := touched.Next()
		b.expire()
		if err := b.disk.Within(ctx, diskWithin, b.follow); ctx.Err() == nil {
			b.report(err)
		}
		all, changed := b.cordons.Load()
		wake := recheck
		for _, c := range all {
			if !c.Until.IsZero() {
				wake = min(wake, time.Until(c.Until))
			}
		}
		select {
		case <-ctx.Done():
		case <-file:
		case <-changed: // a command has changed the cordons, so one of them may end sooner
		case <-time.After(wake):
		}
	}
	return nil
}

// follow publishes the cordons in the file and removes expired ones from it. If the file can't be read or has been
// removed, the cordons in force remain until they expire.
func (b *Book) follow(ctx context.Context) error {
	all := b.List()
	dir, err := privatedir.OpenDir(b.dir, len(all) == 0)
	if err == nil {
		defer dir.Close()
		var found []Cordon
		switch found, err = read(dir); {
		case err == nil:
			all = found
		case errors.Is(err, fs.ErrNotExist) && len(all) == 0: // otherwise, someone has removed the file
			err = nil
		}
	}
	inForce := b.publish(all, fromFile, "")
	if err == nil && len(inForce) < len(all) {
		err = b.clean(ctx, dir)
	}
	return err
}

// report logs an error from [Book.follow], unless it is the same as the previous one.
func (b *Book) report(err error) {
	switch {
	case err == nil:
		b.fault = ""
	case err.Error() != b.fault:
		b.fault = err.Error()
		b.log.Error("cordons could not be read, current cordons kept", logevent.CordonUnavailable, logevent.Err(err))
	}
}

// clean removes expired cordons from the file, unless another daemon has already done so.
func (b *Book) clean(ctx context.Context, dir *os.Root) error {
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	lock, err := privatedir.AcquireLock(ctx, dir, lockName)
	if err != nil {
		return err
	}
	defer lock.Release()
	all, err := read(dir)
	if err != nil {
		return err
	}
	if inForce := b.publish(all, fromFile, ""); len(inForce) < len(all) {
		_, err = write(dir, inForce)
	}
	return err
}
