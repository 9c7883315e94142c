package sensors

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

const (
	// mostFailures is how many sensors in a row can fail before the rest of the card is skipped.
	mostFailures = 3
	// afresh is the number of readings after which limits are reread.
	afresh = 20
	// listedFor is how long a list of sensor devices is used, which is long enough for all cards that are read
	// together.
	listedFor = time.Second
)

// devices lists the node's sensor devices, once for all cards. It is safe for concurrent use.
type devices struct {
	host  sysfs.Host
	mu    sync.Mutex
	at    time.Time
	chips map[string][]sensors.Chip
	err   error
}

// of returns a card's sensor devices. Because all cards' devices are listed together, the error may be about another
// card.
func (d *devices) of(address string) ([]sensors.Chip, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil || d.at.IsZero() || time.Since(d.at) >= listedFor {
		d.chips, d.err = sensors.Chips(d.host)
		d.at = time.Now()
	}
	return d.chips[address], d.err
}

// kept is what one reading of a card keeps for the next one. The zero value means that nothing is known.
type kept struct {
	chips    []sensors.Chip
	what     scope
	list     []sensors.Sensor
	limits   []sensors.Limits // for each sensor in list
	known    []bool           // whether the sensor's limits have been read; if not, the next reading tries again
	times    int              // number of readings with this list
	firmware sensors.Firmware
}

// outcome is the result of one reading of a card.
type outcome struct {
	kept     kept
	pci      PCI
	firmware sensors.Firmware
	readings []sensors.Reading
	failures int   // sensors that couldn't be read
	err      error // the error of the first sensor that failed
	// void means that the reading says nothing about the sensors, because the card has left or the daemon is out of
	// file descriptors or memory.
	void bool
}

// failed records an error.
func (o *outcome) failed(err error) {
	switch {
	case sysfs.IsShortage(err), sysfs.Gone(err) && !refused(err):
		o.void = true
	case o.err == nil:
		o.err = err
		o.failures++
	default:
		o.failures++
	}
}

// refused reports whether a driver has returned ENODEV even though its file is still there. In that case, the card
// hasn't left, because the kernel hides a device's files before it ends accesses to them (kernfs_drain in
// fs/kernfs/dir.c).
func refused(err error) bool {
	var file *fs.PathError
	if !errors.Is(err, syscall.ENODEV) || !errors.As(err, &file) {
		return false
	}
	_, gone := os.Lstat(file.Path)
	return gone == nil
}

// read reads as much of a card as the given scope requires. It blocks for as long as the card doesn't respond.
func (d *devices) read(address string, k kept, what scope) (o outcome) {
	o.pci = readPCI(d.host, address)
	if what == onlyPCI {
		return o
	}
	chips, err := d.of(address)
	if err != nil {
		o.failed(err)
	}
	if !slices.Equal(chips, k.chips) {
		k = kept{chips: chips}
	}
	if k.times == 0 || k.what != what {
		k = kept{chips: k.chips, what: what}
		k.list, err = sensors.List(k.chips)
		if err != nil {
			o.failed(err)
		}
		if what == main {
			k.list = sensors.ForSummary(k.list)
		}
	}
	if o.void {
		return o
	}
	if k.times == 0 {
		k.limits = make([]sensors.Limits, len(k.list))
	}
	if k.times%afresh == 0 {
		k.known = make([]bool, len(k.list))
	}
	var inRow int
	incomplete := o.err != nil // so that the card's lists are reread next time
	for i := range k.list {
		s := &k.list[i]
		if !k.known[i] {
			limits, err := s.Limits()
			if err != nil {
				o.failed(err)
			} else {
				k.limits[i], k.known[i] = limits, true
			}
		}
		value, err := s.Read()
		switch {
		case err == nil:
			inRow = 0
			o.readings = append(o.readings, sensors.Reading{Chip: s.Chip, Name: s.Name, Kind: s.Kind, Value: value, Limits: k.limits[i]})
		case errors.Is(err, sensors.ErrNoValue):
			inRow = 0
		default:
			o.failed(err)
			inRow++
		}
		if o.void || inRow == mostFailures {
			o.readings = nil
			return o
		}
	}
	if k.times%afresh == 0 {
		k.firmware, err = sensors.ReadFirmware(k.chips) // if this fails, so do the sensors behind the same controller
		incomplete = incomplete || sysfs.IsShortage(err)
	}
	o.firmware = k.firmware
	if k.times++; !incomplete {
		o.kept = k
	}
	return o
}

// readPCI reads the state of a card's PCI function. It ignores errors, because if the card doesn't respond or has left,
// its health already shows that.
func readPCI(host sysfs.Host, address string) (p PCI) {
	dir, err := host.PCIDir(address)
	if err != nil {
		return p
	}
	p.Link, _ = sysfs.ReadLink(dir)
	p.Correctable, _ = sysfs.ReadAs(dir+"/aer_dev_correctable", sysfs.ParseCorrectable)
	return p
}
