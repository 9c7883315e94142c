package fpga

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Host holds the root directories of a node's sysfs and device nodes.
type Host = sysfs.Host

// Card is a PCI function with ports or an FME.
type Card struct {
	Address string // of the PCI function with the ports: DDDD:BB:DD.F, in lower case
	Driver  string // dfl or opae
	// FME is the name of the FME and its device node, for example dfl-fme.0, or "" if there is no FME. The FME may
	// belong to the physical function.
	FME          string
	FMEAddress   string // of the PCI function with the FME: either Address or the physical function's address; "" if there is no FME
	InterfaceID  string // 32 lower-case hex digits; "" if there is none or InterfaceErr is set
	InterfaceErr error  // why InterfaceID couldn't be read
	Ports        []Port // sorted by number
}

// Port is one of a card's ports.
type Port struct {
	Name   string // the port's name and its device node's, for example dfl-port.0
	Number int    // hardware number, which identifies the port in driver requests; -1 if no driver is bound
	AFUID  string // 32 lower-case hex digits, all f if the card doesn't respond; "" if AFUErr is set
	// AFUErr says why AFUID couldn't be read. It is EBUSY while the port is being programmed and after programming has
	// failed, and fs.ErrNotExist if the card doesn't have AFU IDs.
	AFUErr error
}

// ID returns the card's device ID in Kubernetes: its address, without the domain if the domain is 0000.
func (c Card) ID() string { return strings.TrimPrefix(c.Address, "0000:") }

// driver describes where a driver's cards are in sysfs:
//
//	<PCI device>/<class>/<entry>N/{<port>N/, <fme>N/}
//
// The directory /sys/class/<class> has a link to each <entry>N. interfaceID and status are [fs.Glob] patterns for paths
// below an FME.
type driver struct {
	name        string
	pci         string // the PCI driver's name
	class       string
	entry       string // prefix of the class entries that hold ports
	port        string // prefix of ports
	fme         string // prefix of FMEs
	interfaceID string // below the FME
	status      string // the FPGA manager's status, below the FME; "" if there is none
	requests
}

var drivers = []*driver{
	{
		name: "dfl", pci: "dfl-pci", class: "fpga_region", entry: "region", port: "dfl-port.", fme: "dfl-fme.",
		interfaceID: "dfl-fme-region.*/fpga_region/*/compat_id",
		status:      "dfl-fme-mgr.*/fpga_manager/*/status",
		requests:    dflRequests,
	},
	{
		name: "opae", pci: "intel-fpga-pci", class: "fpga", entry: "intel-fpga-dev.", port: "intel-fpga-port.", fme: "intel-fpga-fme.",
		interfaceID: "pr/interface_id",
		requests:    opaeRequests,
	},
}

// place holds a card's paths, which can be found without reading any attributes.
type place struct {
	*driver
	address string
	physfn  string   // a virtual function's physical function
	ports   []string // directories
	fme     string   // the FME's directory, which may be in the physical function; "" if there is none
	fmeAt   string   // address of the function with the FME
}

// Cards returns the node's cards, sorted by address. It omits cards that are removed while it is running. If it returns
// an error, it also returns the cards that it was able to find.
func Cards(h Host) ([]Card, error) {
	places, err := locate(h)
	cards := make([]Card, 0, len(places))
	for _, p := range places {
		cards = append(cards, p.read())
	}
	return cards, err
}

// Find returns the named card and, if the name selects a port, that port. A name is a PCI address (with or without the
// domain), an FME's or port's name, or the path of its device node. As in device IDs, an address can be followed by
// -pN, which selects port number N. The error is fs.ErrNotExist if there is no such card.
func Find(h Host, name string) (Card, *Port, error) {
	places, lerr := locate(h)
	short := strings.TrimPrefix(strings.TrimPrefix(name, h.Dev+"/"), "/dev/")
	address, number := parseAddress(short)
	for _, p := range places {
		port := slices.IndexFunc(p.ports, func(dir string) bool { return base(dir) == short })
		isFME := p.fme != "" && base(p.fme) == short && p.fmeAt == p.address
		if p.address != address && port < 0 && !isFME {
			continue
		}
		card := p.read()
		for i := range card.Ports {
			if is := &card.Ports[i]; is.Name == short || number >= 0 && is.Number == number {
				return card, is, nil
			}
		}
		if number >= 0 {
			_, err := card.Port(number)
			return Card{}, nil, err
		}
		return card, nil, nil
	}
	if lerr != nil {
		return Card{}, nil, lerr
	}
	if len(places) == 0 {
		return Card{}, nil, absentf("device %s: found no FPGA card, want one with the driver dfl-pci or intel-fpga-pci:"+
			" lspci -k shows cards and drivers", sysfs.Quote(name))
	}
	var ids []string
	for _, p := range places {
		ids = append(ids, strings.TrimPrefix(p.address, "0000:"))
	}
	return Card{}, nil, absentf("device %s: found no FPGA card of this name, want one of %s", sysfs.Quote(name), strings.Join(ids, ", "))
}

// Port returns the card's port with the given number. The error is fs.ErrNotExist if there is none.
func (c Card) Port(number int) (Port, error) {
	var numbers []string
	for _, p := range c.Ports {
		switch {
		case p.Number < 0: // no driver is bound
		case p.Number == number:
			return p, nil
		default:
			numbers = append(numbers, strconv.Itoa(p.Number))
		}
	}
	return Port{}, absentf("port %d of card %s: found none, want one of its ports: %s",
		number, c.ID(), cmp.Or(strings.Join(numbers, ", "), "none"))
}

// absent is an error that matches [fs.ErrNotExist] but has its own message.
type absent string

func absentf(format string, args ...any) error { return absent(fmt.Sprintf(format, args...)) }

func (a absent) Error() string { return string(a) }

func (absent) Is(target error) bool { return target == fs.ErrNotExist }

// parseAddress parses [DDDD:]BB:DD.F[-pN]. It returns "" as the address if name has a different format, and -1 as the
// number if there is no -pN.
func parseAddress(name string) (address string, number int) {
	text, digits, hasPort := strings.Cut(name, "-p")
	if strings.Count(text, ":") == 1 {
		text = "0000:" + text
	}
	address, err := sysfs.ParsePCIAddress(text)
	if err != nil || !hasPort {
		return address, -1
	}
	if number, err = sysfs.ParseUint8(digits); err != nil {
		return "", -1
	}
	return address, number
}

// locate finds the cards and sorts them by address. It omits class entries that have neither a port nor an FME, because
// they can't be programmed, and entries that appear or disappear while it is running.
func locate(h Host) ([]place, error) {
	var places []place
	var errs error
	for _, d := range drivers {
		names, err := h.ClassLinks(d.class)
		errs = errors.Join(errs, err)
		for _, name := range names {
			if !sysfs.Numbered(name, d.entry) {
				continue
			}
			p, err := d.locate(h, name)
			switch {
			case err != nil && !comesOrGoes(err):
				errs = errors.Join(errs, err)
			case err == nil && (len(p.ports) > 0 || p.fme != ""):
				places = append(places, p)
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.address, b.address) })
	for i := range places {
		p := &places[i]
		for _, other := range places {
			if p.fme == "" && p.physfn != "" && other.address == p.physfn && other.driver == p.driver {
				p.fme, p.fmeAt = other.fme, other.fmeAt
			}
		}
	}
	return places, errs
}

// locate finds the card that a class entry belongs to. The address is "" if the entry is a region below an FME.
func (d *driver) locate(h Host, name string) (place, error) {
	p := place{driver: d}
	var err error
	if p.address, err = h.ClassCard(d.class, name); err != nil || p.address == "" {
		return p, err
	}
	dir, err := h.PCIDir(p.address)
	if err != nil {
		return p, err
	}
	if p.physfn, err = sysfs.PhysFn(dir); err != nil {
		return p, err
	}
	dir += "/" + d.class + "/" + name
	children, err := os.ReadDir(dir)
	for _, c := range children {
		switch {
		case !c.IsDir():
		case sysfs.Numbered(c.Name(), d.port):
			p.ports = append(p.ports, dir+"/"+c.Name())
		case sysfs.Numbered(c.Name(), d.fme) && p.fme == "":
			p.fme, p.fmeAt = dir+"/"+c.Name(), p.address
		}
	}
	return p, err
}

// comesOrGoes reports whether an error from following links means that the card just appeared or disappeared.
func comesOrGoes(err error) bool {
	return sysfs.Gone(err) || errors.Is(err, syscall.ELOOP) ||
		errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EINVAL)
}

// read reads the card's attributes.
func (p place) read() Card {
	c := Card{Address: p.address, Driver: p.name}
	if p.fme != "" {
		c.FME, c.FMEAddress = base(p.fme), p.fmeAt
		c.InterfaceID, c.InterfaceErr = p.readInterfaceID()
	}
	for _, dir := range p.ports {
		c.Ports = append(c.Ports, readPort(dir))
	}
	slices.SortFunc(c.Ports, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(a.Name, b.Name))
	})
	return c
}

// readInterfaceID reads the FME's interface ID. A dfl card has a file with the ID for each port (FME_PR_INTFC_ID,
// dfl-fme-mgr.c), and all of these files have the same content.
func (p place) readInterfaceID() (string, error) {
	var err error
	files, _ := fs.Glob(os.DirFS(p.fme), p.interfaceID) // the only possible error is a malformed pattern
	for _, file := range files {
		var id string
		if id, err = sysfs.ReadAs(p.fme+"/"+file, sysfs.ParseID); err == nil {
			return id, nil
		}
	}
	return "", err
}

// portDir returns the named port's directory, or "" if there is no such port.
func (p place) portDir(name string) string {
	for _, dir := range p.ports {
		if base(dir) == name {
			return dir
		}
	}
	return ""
}

func readPort(dir string) Port {
	p := Port{Name: base(dir), Number: -1}
	if n, err := sysfs.ReadAs(dir+"/id", sysfs.ParseUint8); err == nil {
		p.Number = n
	}
	p.AFUID, p.AFUErr = sysfs.ReadAs(dir+"/afu_id", sysfs.ParseID)
	return p
}

// base returns the last element of a path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
