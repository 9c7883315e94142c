package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Node is a simulated node.
type Node struct {
	Sys string // root of the sysfs tree
	Dev string // directory of the device nodes; they are regular files

	cards map[string]*plugged // by address
}

// Card describes a card with the in-tree DFL driver.
type Card struct {
	Address     string // PCI address DDDD:BB:DD.F, lower case
	Ports       int    // hardware ports 0..Ports-1
	AFUID       string // 32 hex digits, of every port
	InterfaceID string // 32 hex digits
	NUMANode    int    // -1: none
	PhysFn      string // address of the physical function, for a virtual one: it has no FME
}

// plugged is a card and the numbers that the driver gave it.
type plugged struct {
	Card
	region int
	fme    int
	ports  []int // driver's number of each hardware port
}

const (
	classDir  = "class/fpga_region"
	busDir    = "bus/pci/devices"
	driverDir = "bus/platform/drivers"
	bridge    = "0000:00:02.0" // the root port that all cards hang from
)

// New makes an empty node in dir, which must exist.
func New(dir string) (*Node, error) {
	n := &Node{Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), cards: make(map[string]*plugged)}
	for _, d := range []string{
		n.Dev, n.sys(classDir), n.sys(busDir), n.sys("devices/pci0000:00", bridge),
		n.sys(driverDir, "dfl-port"), n.sys(driverDir, "dfl-fme"), n.sys("bus/pci/drivers/dfl-pci"),
	} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("simulated node: %w", err)
		}
	}
	return n, nil
}

func (n *Node) sys(elem ...string) string {
	return filepath.Join(append([]string{n.Sys}, elem...)...)
}

// CardDir is the card's PCI directory.
func (n *Node) CardDir(address string) string {
	return n.sys("devices/pci0000:00", bridge, address)
}

// PortDir is the directory of a hardware port of a plugged card.
func (n *Node) PortDir(address string, port int) string {
	c := n.cards[address]
	return filepath.Join(n.regionDir(c), "dfl-port."+strconv.Itoa(c.ports[port]))
}

// FMEDir is the directory of the FME of a plugged card.
func (n *Node) FMEDir(address string) string {
	c := n.cards[address]
	return filepath.Join(n.regionDir(c), "dfl-fme."+strconv.Itoa(c.fme))
}

func (n *Node) regionDir(c *plugged) string {
	return filepath.Join(n.CardDir(c.Address), "fpga_region", "region"+strconv.Itoa(c.region))
}

// PortNode is the name of the device node of a hardware port of a plugged card.
func (n *Node) PortNode(address string, port int) string {
	return "dfl-port." + strconv.Itoa(n.cards[address].ports[port])
}

// Set changes an attribute of a hardware port in one step, as hardware does: a
// reader sees the old value or the new one, never an empty file.
func (n *Node) Set(address string, port int, attribute, value string) error {
	path := filepath.Join(n.PortDir(address, port), attribute)
	if err := writeFile(path+".new", value+"\n"); err != nil {
		return fmt.Errorf("simulated node: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("simulated node: %w", err)
	}
	return nil
}

// lowestFree is the number that the kernel's allocator would give.
func lowestFree(taken func(int) bool) int {
	for i := 0; ; i++ {
		if !taken(i) {
			return i
		}
	}
}

func (n *Node) takenRegion(i int) bool {
	for _, c := range n.cards {
		// The per-port region of the FME takes a number too.
		if c.region == i || c.PhysFn == "" && c.region+1 == i {
			return true
		}
	}
	return false
}

func (n *Node) takenFME(i int) bool {
	for _, c := range n.cards {
		if c.PhysFn == "" && c.fme == i {
			return true
		}
	}
	return false
}

func (n *Node) takenPort(i int) bool {
	for _, c := range n.cards {
		for _, p := range c.ports {
			if p == i {
				return true
			}
		}
	}
	return false
}
