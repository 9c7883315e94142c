package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Link describes a device's PCIe link. The zero Link means that it isn't known.
type Link struct {
	Speed, MaxSpeed int // in tenths of GT/s, per lane
	Width, MaxWidth int // number of lanes
}

// ReadLink returns the link of the PCI device at dir. The result is zero if the device is suspended, because reading
// the link would wake it (since Linux 6.18; before that, a link in D3cold reads as all ones; see pci-sysfs.c). It is
// also zero if a value is missing, "Unknown", or impossible, because the device has no link, is a virtual function, or
// doesn't respond. (If a device doesn't respond, the kernel computes the values from all ones and reports, for example,
// a maximum speed of 64 GT/s.) The current values are read last: if they are possible, the device must still have been
// responding when the maximum values were read.
func ReadLink(dir string) (Link, error) {
	switch status, err := Read(dir + "/power/runtime_status"); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Link{}, err
	case status == "suspended", status == "suspending":
		return Link{}, nil
	}
	var l Link
	for _, a := range []struct {
		name  string
		parse func(string) (int, error)
		value *int
	}{
		{"max_link_speed", ParseLinkSpeed, &l.MaxSpeed},
		{"max_link_width", parseLinkWidth, &l.MaxWidth},
		{"current_link_speed", ParseLinkSpeed, &l.Speed},
		{"current_link_width", parseLinkWidth, &l.Width},
	} {
		v, err := ReadAs(dir+"/"+a.name, a.parse)
		if errors.Is(err, fs.ErrNotExist) {
			return Link{}, nil
		}
		if v == 0 || err != nil {
			return Link{}, err
		}
		*a.value = v
	}
	return l, nil
}

// widths lists how many lanes a link can have.
var widths = []int{1, 2, 4, 8, 12, 16, 32}

// parseLinkWidth parses a number of lanes. It returns 0 for a number that a link can't have: the kernel reports 0 or
// 255 if the width isn't known, and 63 if the device doesn't respond.
func parseLinkWidth(s string) (int, error) {
	lanes, err := ParseUint8(s)
	if !slices.Contains(widths, lanes) {
		return 0, err
	}
	return lanes, nil
}

// correctable lists the names of errors in aer_dev_correctable (aer_correctable_error_string, drivers/pci/pcie/aer.c).
var correctable = []string{"RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF"}

// OtherError is the type of all errors for which the kernel doesn't define a name.
const OtherError = "other"

// ParseCorrectable parses aer_dev_correctable, which contains a PCI device's correctable error counts: a line NAME N
// for each type of error, followed by TOTAL_ERR_COR N. It returns the counts by type. The kernel keeps the counts in
// memory, so reading the file doesn't access the device.
func ParseCorrectable(s string) (map[string]uint64, error) {
	counts := make(map[string]uint64)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		name, number, _ := strings.Cut(line, " ")
		n, err := strconv.ParseUint(number, 10, 64)
		last := i == len(lines)-1
		if err != nil || last != (name == "TOTAL_ERR_COR") {
			return nil, fmt.Errorf("line %d: found %s, want NAME N, and TOTAL_ERR_COR N in the last line", i+1, Quote(line))
		}
		if last {
			continue
		}
		if !slices.Contains(correctable, name) {
			name = OtherError
		} else if _, again := counts[name]; again {
			return nil, fmt.Errorf("line %d: found %s twice, want it once", i+1, name)
		}
		counts[name] += n
	}
	return counts, nil
}
