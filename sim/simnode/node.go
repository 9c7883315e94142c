package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Node is a simulated node. Create it with [New] or [Open].
type Node struct {
	Sys string // the sysfs root
	Dev string // the device node directory

	// Mknod makes device nodes real character devices, which only root can create. Their major numbers are reserved for
	// experimental use, so no driver has them. Otherwise, device nodes are regular files, and sysfs shows numbers from
	// a recording. Set Mknod before calling Plug.
	Mknod bool

	cards       map[string]*plugged // by address
	directories *directories
	used        map[int]bool
	waiting     map[int][]func() error // by IOMMU group: steps that wait until the group is no longer in use

	// These fields are set only for a node opened with Open.
	state string // path of the file that the node is saved in
	lock  *privatedir.Lock
}

// Card describes a card that uses the in-tree DFL driver, a PCI function with an IOMMU group, or one of an AWS card's
// functions.
type Card struct {
	Address     string // DDDD:BB:DD.F in lower case
	Ports       int    // hardware ports 0..Ports-1
	AFUID       string // 32 hex digits, the same for all ports
	InterfaceID string // 32 hex digits
	NUMANode    int    // -1: none
	PhysFn      string // a virtual function's physical function; virtual functions don't have an FME
	// PCIID contains the vendor, device, subsystem vendor and subsystem device IDs, in the form VVVV:DDDD:SSSS:SSSS.
	// The default is 8086:09c4:8086:0000, a PAC with Arria 10, or 09c5 for its virtual function. For a function with an
	// IOMMU group it is 8086:bcce:8086:1771, or bccf if the function is virtual. For an AWS card, it consists of the
	// IDs of a card in an F2 instance.
	PCIID string

	Group  string `json:",omitempty"` // OwnGroup or SlotGroup for a function without ports or an FME; "" for a card that uses the DFL driver
	Driver string `json:",omitempty"` // such a function's driver when it is plugged in; "" if there is none
	VBNV   string `json:",omitempty"` // the shell of a function bound to xocl; "" means a U250's shell

	Slot string `json:",omitempty"` // Application or Management for one of an AWS card's functions; "" for any other card
}

var id = regexp.MustCompile("^[0-9a-f]{32}$")

// Check returns an error if the card's address or one of its IDs is malformed.
func (c Card) Check() error {
	if address, err := sysfs.ParsePCIAddress(c.Address); err != nil || address != c.Address {
		return fmt.Errorf("address: found %q, want DDDD:BB:DD.F in lower case", c.Address)
	}
	dfl := c.Group == "" && c.Slot == ""
	for _, i := range []struct {
		name, found string
		needed      bool
	}{{"AFU id", c.AFUID, dfl}, {"interface id", c.InterfaceID, dfl && c.PhysFn == ""}} {
		if (i.needed || i.found != "") && !id.MatchString(i.found) {
			return fmt.Errorf("%s: %s: found %q, want 32 hexadecimal digits in lower case", c.Address, i.name, i.found)
		}
	}
	_, err := c.pciID()
	return err
}

// plugged is a plugged-in card, with the numbers that the driver gave it.
type plugged struct {
	Card
	Region      int      // base region
	FME         int      // not used for a virtual function; nor are the next three fields
	Child       int      // the FME's region
	Manager     int      // fpgaN
	HWMon       []int    // numbers of the thermal, power and board controller hwmon devices
	PortNumbers []int    // the driver's number of each hardware port
	AFUs        []string // each hardware port's current AFU
	Partial     bool     // whether the card is being plugged in or pulled

	Function *function `json:",omitempty"` // nil for a card that uses the DFL driver and for an AWS card
	Removed  bool      `json:",omitempty"` // whether the AWS card's function is missing until Rescan
}

const (
	regionClass  = "class/fpga_region"
	managerClass = "class/fpga_manager"
	hwmonClass   = "class/hwmon"
	busDir       = "bus/pci/devices"
	driverDir    = "bus/platform/drivers"
	bridge       = "0000:00:02.0" // the root port that all cards are below
)

// New creates a node without cards in dir, which must exist. The node isn't saved.
func New(dir string) (*Node, error) {
	n := in(dir)
	if err := n.make(); err != nil {
		return nil, err
	}
	return n, nil
}

// in returns a node in dir without creating any files.
func in(dir string) *Node {
	return &Node{
		Sys:         filepath.Join(dir, "sys"),
		Dev:         filepath.Join(dir, "dev"),
		cards:       make(map[string]*plugged),
		used:        make(map[int]bool),
		waiting:     make(map[int][]func() error),
		directories: &directories{dir: filepath.Join(dir, "directories"), keep: maxDeleted},
	}
}

// make creates the files that a node without cards has.
func (n *Node) make() error {
	for _, d := range []string{
		n.directories.dir, n.Dev, n.sys(regionClass), n.sys(managerClass), n.sys(hwmonClass), n.sys(busDir), n.bridgeDir(),
		n.sys(driverDir, "dfl-port"), n.sys(driverDir, "dfl-fme"), n.sys("bus/pci/drivers/dfl-pci"),
	} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("simulated node: %w", err)
		}
	}
	t := n.tree()
	plugBridge(t, n.bridgeDir())
	if t.err != nil {
		return fmt.Errorf("simulated node: %w", t.err)
	}
	return nil
}

// tree returns a tree that creates the node's files.
func (n *Node) tree() *tree { return &tree{directories: n.directories} }

func (n *Node) sys(elem ...string) string {
	return filepath.Join(append([]string{n.Sys}, elem...)...)
}

func (n *Node) bridgeDir() string { return n.sys("devices/pci0000:00", bridge) }

// CardDir returns a card's PCI device directory.
func (n *Node) CardDir(address string) string {
	return filepath.Join(n.bridgeDir(), address)
}

// PortDir returns the directory of a plugged-in card's hardware port.
func (n *Node) PortDir(address string, port int) string {
	c := n.cards[address]
	return filepath.Join(n.regionDir(c), "dfl-port."+strconv.Itoa(c.PortNumbers[port]))
}

// FMEDir returns the directory of a plugged-in card's FME.
func (n *Node) FMEDir(address string) string {
	c := n.cards[address]
	return filepath.Join(n.regionDir(c), "dfl-fme."+strconv.Itoa(c.FME))
}

func (n *Node) regionDir(c *plugged) string {
	return filepath.Join(n.CardDir(c.Address), "fpga_region", "region"+strconv.Itoa(c.Region))
}

// PortNode returns the name of the device node for a plugged-in card's hardware port.
func (n *Node) PortNode(address string, port int) string {
	return "dfl-port." + strconv.Itoa(n.cards[address].PortNumbers[port])
}

// majors returns the major numbers for the ports' and FMEs' device nodes.
func (n *Node) majors() (port, fme int) {
	if n.Mknod {
		return 120, 121 // Documentation/admin-guide/devices.txt: LOCAL/EXPERIMENTAL USE
	}
	return 245, 246
}

// allocator identifies a kind of number. For each kind, the kernel assigns the lowest free number.
type allocator int

const (
	regions allocator = iota
	fmes
	managers
	hwmons
	ports
	groups     // numbers of IOMMU groups
	minors     // minors of the groups' device nodes
	characters // numbers of vfio-dev devices
	renders    // minors of xocl's render nodes, starting at firstRender
)

// numbers returns the numbers that the card takes up, keyed by kind.
func (c *plugged) numbers() map[allocator][]int {
	f := c.Function
	switch {
	case f != nil:
		return map[allocator][]int{groups: {f.IOMMU}, minors: {f.Minor}, characters: {f.Character}, renders: {f.Render}}
	case c.Slot != "":
		return nil
	case c.PhysFn != "":
		return map[allocator][]int{regions: {c.Region}, ports: c.PortNumbers}
	}
	return map[allocator][]int{
		regions: {c.Region, c.Child}, fmes: {c.FME}, managers: {c.Manager}, hwmons: c.HWMon, ports: c.PortNumbers,
	}
}

// free returns the lowest numbers of a kind that no card is using.
func (n *Node) free(of allocator, count int) []int {
	used := map[int]bool{}
	for _, c := range n.cards {
		for _, number := range c.numbers()[of] {
			used[number] = true
		}
	}
	var free []int
	next := 0
	if of == renders {
		next = firstRender
	}
	for ; len(free) < count; next++ {
		if !used[next] {
			free = append(free, next)
		}
	}
	return free
}
