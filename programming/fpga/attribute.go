package fpga

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Attribute is a sysfs file of an FME or a port.
type Attribute struct {
	Name  string // path below the FME's or port's directory; "manager state" for the FPGA manager
	Value string
	Err   error
}

// The attributes to show, as [fs.Glob] patterns. They don't include the FME's errors, because dfl blocks reads of these
// until programming has finished (pdata->lock, dfl-fme-error.c).
var (
	fmeAttributes = []string{"ports_num", "bitstream_id", "bitstream_metadata", "cache_size", "fabric_version", "socket_id",
		"dfl-fme-mgr.*/fpga_manager/*/state", "fpga_manager/*/state"}
	portAttributes = []string{"power_state", "ap1_event", "ap2_event", "ltr", "errors/errors", "errors/first_error"}
)

// FMEAttributes reads the attributes of a card's FME.
func FMEAttributes(h Host, c Card) ([]Attribute, error) {
	p, err := placeOf(h, c)
	if err != nil || p.fme == "" {
		return nil, err
	}
	return readAttributes(p.fme, fmeAttributes), nil
}

// PortAttributes reads the attributes of one of a card's ports.
func PortAttributes(h Host, c Card, port Port) ([]Attribute, error) {
	p, err := placeOf(h, c)
	if err != nil {
		return nil, err
	}
	dir := p.portDir(port.Name)
	if dir == "" {
		return nil, errLeft
	}
	return readAttributes(dir, portAttributes), nil
}

// errLeft is the error for a card that is no longer on the node.
var errLeft = absentf("the card has left")

// placeOf returns a card's current paths.
func placeOf(h Host, c Card) (place, error) {
	places, err := locate(h)
	i := slices.IndexFunc(places, func(p place) bool { return p.address == c.Address && p.name == c.Driver })
	switch {
	case i >= 0:
		return places[i], nil
	case err != nil:
		return place{}, err
	}
	return place{}, errLeft
}

func readAttributes(dir string, patterns []string) []Attribute {
	var all []Attribute
	for _, pattern := range patterns {
		files, _ := fs.Glob(os.DirFS(dir), pattern) // the only possible error is a malformed pattern
		for _, file := range files {
			value, err := sysfs.Read(dir + "/" + file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if pattern != file {
				file = "manager " + base(file)
			}
			all = append(all, Attribute{file, value, err})
		}
	}
	return all
}
