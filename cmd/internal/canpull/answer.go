package canpull

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/cmd/internal/procusers"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Values of [Answer.Answer] and [Reason.Answer].
const (
	Yes     = "yes"
	No      = "no"
	Unknown = "unknown"
)

// Answer is the answer for one card. `can-pull -o json` prints it, so programs rely on its JSON keys.
type Answer struct {
	Address string   `json:"address"` // including the domain
	Answer  string   `json:"answer"`  // yes, no or unknown
	Reasons []Reason `json:"reasons"` // reasons for no come first, then reasons for unknown
}

// Reason is a reason for an answer. If the answer is yes, reasons are only informational: they list the card's other
// functions, for example.
type Reason struct {
	Answer string `json:"answer"` // no, unknown or yes
	What   string `json:"what"`
	Do     string `json:"do"` // what to do about it; "" if nothing
}

// Facts is what [Judge] needs to know about a card and its node.
type Facts struct {
	Address string // including the domain
	Card    Card
	CardErr error

	Rows    []view.Row // all of the node's devices
	RowsErr error      // not nil if Rows isn't known
	Cordons []cordon.Cordon
	// Holders maps device IDs to the holders that the kubelet reported. Rows may list other holders.
	Holders    map[string][]string
	HoldersErr string // why the holders aren't known; "" if they are known
	DRA        bool   // Rows comes from the DRA driver

	// Given maps device IDs to the UIDs of the pods that have the device according to the kubelet's checkpoint.
	Given    map[string][]string
	GivenErr error // not nil if Given isn't known

	Processes    []procusers.Process
	ProcessesErr error // not nil if processes may be missing
}

// Judge decides whether a card can be pulled, based on the facts about it.
func Judge(f Facts) Answer {
	a := Answer{Address: f.Address, Reasons: []Reason{}}
	addresses := map[string]bool{f.Address: true}
	for _, function := range f.Card.Functions {
		addresses[function.Address] = true
	}
	for _, row := range f.Rows { // a device may have functions from several cards
		if slices.ContainsFunc(row.Members, func(member string) bool { return addresses[member] }) {
			addresses[row.PCIAddress] = true
		}
	}
	slots := slotsOf(f.Rows)
	switch {
	case left(f) && f.RowsErr == nil && !slices.Contains(slots, short(f.Address)) && len(ofCard(f.Holders, addresses)) == 0:
		a.unknown("no card in slot "+short(f.Address)+" of this node, which has "+cmp.Or(strings.Join(slots, ", "), "none"), "check the address")
	case left(f):
		a.unknown("no PCI device "+f.Address+": "+f.CardErr.Error(),
			"the card has just left the node, or this command has another --sysfs-root than the daemon")
	case f.CardErr != nil:
		a.unknown("the card cannot be read: "+f.CardErr.Error(), "")
	case f.Card.Address != f.Address:
		a.add(Yes, fmt.Sprintf("%s is a virtual function of %s, which was checked", short(f.Address), short(f.Card.Address)), "")
	}
	a.offers(f, addresses)
	a.holders(f, addresses)
	a.processes(f)
	for _, function := range f.Card.Functions {
		a.function(function, f.Card.Address)
	}
	a.Answer = Yes
	order := []string{No, Unknown, Yes}
	slices.SortStableFunc(a.Reasons, func(x, y Reason) int {
		return slices.Index(order, x.Answer) - slices.Index(order, y.Answer)
	})
	if len(a.Reasons) > 0 {
		a.Answer = a.Reasons[0].Answer
	}
	return a
}

func (a *Answer) add(answer, what, do string) {
	a.Reasons = append(a.Reasons, Reason{answer, what, do})
}

func (a *Answer) no(what, do string)      { a.add(No, what, do) }
func (a *Answer) unknown(what, do string) { a.add(Unknown, what, do) }

// offers adds a reason for each of the card's devices that a new pod could still get.
func (a *Answer) offers(f Facts, addresses map[string]bool) {
	if f.RowsErr != nil {
		a.unknown("the devices of the card are not known: "+f.RowsErr.Error(), "run the command where the daemon runs, or with --scan")
		return
	}
	open := map[string]bool{} // by function
	listed := map[string]bool{}
	ends := map[string]time.Time{} // when each device's cordon ends
	for _, row := range f.Rows {
		if !addresses[row.PCIAddress] || row.MissingSince != nil {
			continue
		}
		listed[row.PCIAddress] = true
		switch {
		case slices.Contains(row.Reasons, inventory.ReasonExcluded):
		case left(f) && slices.Contains(row.Reasons, inventory.ReasonRemovedInUse):
		case row.Cordon == nil: // even if it isn't advertised now, because programming a different AFU may change that
			open[short(row.PCIAddress)] = true
		case row.Health != inventory.Unhealthy.String():
			a.no(row.ID+" is cordoned, but still advertised", "check again in a second")
		case !row.Cordon.Until.IsZero():
			ends[row.Cordon.Device] = row.Cordon.Until
		}
		if slices.Contains(row.Reasons, inventory.ReasonNodeInUse) {
			a.no(row.ID+" has a device node that a container with another device may open",
				"the pod of the device that `devices` shows with removed-in-use, replaced-in-use or node-changed must end, but the node can crash then: "+removal+
					"; if there is no such device, another plugin's pod or a force-deleted pod has the node")
		}
	}
	if len(listed) == 0 {
		if !left(f) {
			a.unknown("no device of the card is listed", "check the driver of the card with lspci -k, and families in the settings of the plugin")
		}
		return
	}
	for _, function := range f.Card.Functions { // functions whose devices aren't listed yet
		if !listed[function.Address] && function.hasPort() && cordon.Find(f.Cordons, short(function.Address)) == nil {
			open[short(function.Address)] = true
		}
	}
	for _, address := range sorted(open) {
		a.no(address+" is not cordoned: a new pod can get it at any time",
			"accelerator-device-plugin cordon "+address+" --why TEXT")
	}
	for _, device := range slices.Sorted(maps.Keys(ends)) {
		what := "the cordon of " + device + " ends at " + ends[device].Local().Format(time.DateTime)
		if time.Until(ends[device]) < cordonLeft {
			a.no(what, "accelerator-device-plugin cordon "+device+" --why TEXT")
		} else {
			a.add(Yes, what, "")
		}
	}
}

// left reports whether the card is no longer on the node.
func left(f Facts) bool { return errors.Is(f.CardErr, fs.ErrNotExist) }

// slotsOf returns the addresses of the cards that are currently on the node.
func slotsOf(rows []view.Row) []string {
	slots := map[string]bool{}
	for _, row := range rows {
		if row.MissingSince == nil {
			slots[short(row.PCIAddress)] = true
		}
	}
	return sorted(slots)
}

// cordonLeft is the minimum time for which a cordon must still last, so that there is enough time to pull the card.
const cordonLeft = 10 * time.Minute

// holders adds a reason for each container that holds one of the card's devices.
func (a *Answer) holders(f Facts, addresses map[string]bool) {
	if f.HoldersErr != "" {
		do := "check --pod-resources-socket and the kubelet"
		if f.DRA { // the holders come from the prepared claims
			do = "check --pod-resources-socket, the kubelet, and claims.json in the --plugin-dir of the driver"
		}
		a.unknown("it is unknown which containers use the card: "+f.HoldersErr, do)
	}
	holders := ofCard(f.Holders, addresses)
	pulled := false // the card, or its driver, may have left since its holders got it
	for _, row := range f.Rows {
		if !addresses[row.PCIAddress] {
			continue
		}
		for _, name := range row.Holder {
			holders[name] = true
		}
		for _, reason := range []string{inventory.ReasonNodeChanged, inventory.ReasonReplacedInUse, inventory.ReasonRemovedInUse} {
			pulled = pulled || slices.Contains(row.Reasons, reason)
		}
		switch {
		case row.Held == nil && f.HoldersErr == "":
			a.unknown("it is unknown whether a container uses "+row.ID, "check again in a few seconds; in a debug pod, set --node-name to the host name of the node")
		case row.Held != nil && *row.Held && len(row.Holder) == 0:
			a.no(row.ID+" was allocated to a container that the kubelet does not list yet", "check again in a few seconds")
		}
	}
	if f.GivenErr != nil {
		a.unknown("the kubelet's checkpoint is not known: "+f.GivenErr.Error(), "with --scan, set --kubelet-dir")
	}
	if len(holders) == 0 {
		a.given(f, addresses)
	}
	for _, name := range sorted(holders) {
		namespace, rest, _ := strings.Cut(name, "/")
		pod, _, _ := strings.Cut(rest, "/")
		do := fmt.Sprintf("ask the pod's owner, or run: kubectl --namespace %s delete pod %s", namespace, pod)
		switch {
		case left(f):
			do = "the card has already left, so the node can crash when this pod ends: " + removal
		case pulled:
			do = "if the card left, or lost its driver, while this pod had it open, the node can crash when the pod ends: " + removal
		}
		a.no("in use by "+name, do)
	}
}

// removal says where to read about pods that had a device node open when the card left.
const removal = "see After an unplanned removal in docs/service.md"

// given adds reasons for the pods in the kubelet's checkpoint, because the pod-resources API may leave pods out. The
// API doesn't list any pods in the first few seconds after the kubelet starts, and it never lists pods in which only
// init containers have a device.
func (a *Answer) given(f Facts, addresses map[string]bool) {
	for _, uid := range sorted(ofCard(f.Given, addresses)) {
		a.unknown("according to the kubelet's checkpoint, the pod with the UID "+uid+" has the card, but the kubelet does not list this pod: the pod has ended, "+
			"or only its init containers have the card, or the kubelet has just started",
			"find the pod with kubectl get pods -A -o custom-columns=UID:.metadata.uid,NAMESPACE:.metadata.namespace,NAME:.metadata.name; "+
				"if no pod has this UID, it has ended, and no longer counts")
	}
}

// ofCard returns the names in the map that belong to devices at the given addresses.
func ofCard(names map[string][]string, addresses map[string]bool) map[string]bool {
	all := map[string]bool{}
	for id, of := range names {
		card, _, _ := strings.Cut(id, "-p")
		if address, err := sysfs.ParseAddress(card); err == nil && addresses[address] {
			for _, name := range of {
				all[name] = true
			}
		}
	}
	return all
}

// mostProcesses is the maximum number of reasons about processes, because any user can start lots of processes.
const mostProcesses = 20

// processes adds a reason for each process that has one of the card's device nodes or BARs open.
func (a *Answer) processes(f Facts) {
	names, bars := map[sysfs.DeviceNumber]string{}, map[procusers.File]string{}
	for _, function := range f.Card.Functions {
		for _, node := range function.Nodes {
			names[node.Number] = node.Name
		}
		for _, bar := range function.BARs {
			bars[bar.File] = short(function.Address) + "/" + bar.Name
		}
	}
	for i, p := range f.Processes {
		if i == mostProcesses {
			a.no(fmt.Sprintf("%d other processes have the card open", len(f.Processes)-i), "end them")
			break
		}
		var open []string
		for _, number := range p.Devices {
			open = append(open, fmt.Sprintf("%s (%s)", names[number], number))
		}
		for _, file := range p.Files {
			open = append(open, bars[file])
		}
		group := ""
		if p.Group != "" {
			group = " in " + p.Group
		}
		a.no(fmt.Sprintf("process %d (%s)%s has %s open", p.PID, p.Command, group, strings.Join(open, ", ")), "end it")
	}
	if f.ProcessesErr != nil && f.CardErr == nil {
		do := "run can-pull with --scan on the node as root, or there in a pod of kubectl debug: docs/service.md shows the command"
		if !errors.Is(f.ProcessesErr, procusers.ErrConfined) {
			do = "run it as root on the node, or in a privileged pod; if it was, the node hides these processes even from root: docs/service.md"
		}
		a.unknown("not all processes that have the card open are known: "+f.ProcessesErr.Error(), do)
	}
}

// fpgaDrivers lists the drivers whose devices can only be used through an open device node, or, with the stub drivers,
// not at all.
var fpgaDrivers = []string{"", "dfl-pci", "intel-fpga-pci", "pcieport", "pci-stub", "pci-pf-stub"}

// function adds a reason for a function that would be removed together with the card.
func (a *Answer) function(f Function, card string) {
	with := short(f.Address) + " is pulled with the card"
	if f.PhysFn != "" {
		with += " as a virtual function"
	}
	if f.Driver != "" {
		with += "; its driver is " + f.Driver
	}
	switch {
	case !slices.Contains(fpgaDrivers, f.Driver) && !strings.Contains(f.Driver, "vfio"):
		a.unknown(with+", whose users are not known",
			fmt.Sprintf("end them, then: echo %s > /sys/bus/pci/drivers/%s/unbind", f.Address, f.Driver))
	case f.Address != card:
		a.add(Yes, with, "")
	}
}

// Numbers returns the device numbers of the card's device nodes. A device node that functions share is listed only
// once.
func (c Card) Numbers() []sysfs.DeviceNumber {
	var all []sysfs.DeviceNumber
	for _, f := range c.Functions {
		for _, n := range f.Nodes {
			if !slices.Contains(all, n.Number) {
				all = append(all, n.Number)
			}
		}
	}
	return all
}

// Files returns the files of the card's BARs.
func (c Card) Files() (all []procusers.File) {
	for _, f := range c.Functions {
		for _, bar := range f.BARs {
			all = append(all, bar.File)
		}
	}
	return all
}

func short(address string) string { return strings.TrimPrefix(address, "0000:") }

func sorted(set map[string]bool) []string {
	return slices.Sorted(maps.Keys(set))
}
