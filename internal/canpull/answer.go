package canpull

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/cordon"
	"b-com.com/accelerator-device-plugin/internal/opened"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/internal/view"
	"b-com.com/accelerator-device-plugin/inventory"
)

// The words of an answer.
const (
	Yes     = "yes"
	No      = "no"
	Unknown = "unknown"
)

// Answer is the answer for one card. Its JSON keys are an interface: `can-pull -o json` prints it.
type Answer struct {
	Address string   `json:"address"` // with domain
	Answer  string   `json:"answer"`  // yes, no or unknown
	Reasons []Reason `json:"reasons"` // those of no first, then those of unknown
}

// Reason is a reason for an answer. Reasons for yes are notes, such as other functions of the card.
type Reason struct {
	Answer string `json:"answer"` // no, unknown or yes
	What   string `json:"what"`
	Do     string `json:"do"` // "": nothing to do
}

// Facts are the facts that [Judge] needs.
type Facts struct {
	Address string // with domain
	Card    Card
	CardErr error

	Rows    []view.Row // all devices of the node
	RowsErr error      // why Rows are not known
	Cordons []cordon.Cordon
	// Holders has the holders of devices by id, from the kubelet, beside those in Rows.
	Holders    map[string][]string
	HoldersErr string // why holders are not known; "": they are

	// Given has the UIDs of the node's pods by the ids of the devices that the kubelet's checkpoint has
	// them given.
	Given    map[string][]string
	GivenErr error // why Given is not known

	Processes    []opened.Process
	ProcessesErr error  // why not all processes are known
	Look         string // the command that finds them on the node
}

// Judge returns the answer for a card.
func Judge(f Facts) Answer {
	a := Answer{Address: f.Address, Reasons: []Reason{}}
	addresses := map[string]bool{f.Address: true}
	for _, function := range f.Card.Functions {
		addresses[function.Address] = true
	}
	switch {
	case errors.Is(f.CardErr, fs.ErrNotExist):
		a.unknown("no PCI device "+f.Address+": "+f.CardErr.Error(),
			"compare the address with `devices -o wide`, and --sysfs-root with that of the daemon")
	case f.CardErr != nil:
		a.unknown("the card cannot be read: "+f.CardErr.Error(), "")
	case f.Card.Address != f.Address:
		a.add(Yes, fmt.Sprintf("%s is a virtual function of %s, which is asked for", short(f.Address), short(f.Card.Address)), "")
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

// offers adds the devices of the card that a pod can still be given.
func (a *Answer) offers(f Facts, addresses map[string]bool) {
	if f.RowsErr != nil {
		a.unknown("the devices of the card are not known: "+f.RowsErr.Error(), "ask where the daemon runs, or with --scan")
		return
	}
	open := map[string]bool{} // functions
	listed := map[string]bool{}
	ends := map[string]time.Time{} // cordons, by device
	for _, row := range f.Rows {
		if !addresses[row.PCIAddress] {
			continue
		}
		listed[row.PCIAddress] = true
		switch {
		case slices.Contains(row.Reasons, inventory.ReasonExcluded):
		case row.Cordon == nil: // also if it is not offered now: an AFU that is programmed may change that
			open[short(row.PCIAddress)] = true
		case row.Health != inventory.Unhealthy.String():
			a.no(row.ID+" is cordoned, but still offered", "ask again in a second")
		case !row.Cordon.Until.IsZero():
			ends[row.Cordon.Device] = row.Cordon.Until
		}
		if slices.Contains(row.Reasons, inventory.ReasonNodeInUse) {
			a.no(row.ID+" has a node that a container of another device may open",
				"delete the pod of that device: `devices` shows it with removed-in-use or node-changed")
		}
	}
	if len(listed) == 0 {
		a.unknown("no device of the card is listed", "see `devices -o wide`: is the address right, and has the card its driver?")
		return
	}
	for _, function := range f.Card.Functions { // devices that come next
		if !listed[function.Address] && function.hasPort() && cordon.Of(f.Cordons, short(function.Address)) == nil {
			open[short(function.Address)] = true
		}
	}
	for _, address := range sorted(open) {
		a.no(address+" is not cordoned: a pod can be given it at any time",
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

// cordonLeft is the least remaining time of a cordon that counts: the card is pulled within it.
const cordonLeft = 10 * time.Minute

// holders adds the containers that hold devices of the card.
func (a *Answer) holders(f Facts, addresses map[string]bool) {
	if f.HoldersErr != "" {
		a.unknown("the containers that hold the card are not known: "+f.HoldersErr,
			"mend --pod-resources-socket, or the kubelet")
	}
	holders := map[string]bool{}
	for id, names := range f.Holders {
		card, _, _ := strings.Cut(id, "-p")
		if address, err := sysfs.ParseAddress(card); err == nil && addresses[address] {
			for _, name := range names {
				holders[name] = true
			}
		}
	}
	for _, row := range f.Rows {
		if !addresses[row.PCIAddress] {
			continue
		}
		for _, name := range row.Holder {
			holders[name] = true
		}
		switch {
		case row.Held == nil && f.HoldersErr == "":
			a.unknown("it is not known whether a container holds "+row.ID, "ask again in a few seconds")
		case row.Held != nil && *row.Held && len(row.Holder) == 0:
			a.no(row.ID+" was given to a container that the kubelet does not name yet", "ask again in a few seconds")
		}
	}
	if f.GivenErr != nil {
		a.unknown("the kubelet's checkpoint is not known: "+f.GivenErr.Error(), "with --scan: give --kubelet-dir")
	}
	if len(holders) == 0 {
		a.given(f, addresses)
	}
	for _, name := range sorted(holders) {
		namespace, rest, _ := strings.Cut(name, "/")
		pod, _, _ := strings.Cut(rest, "/")
		a.no("held by "+name, fmt.Sprintf("kubectl --namespace %s delete pod %s", namespace, pod))
	}
}

// given adds the pods of the kubelet's checkpoint. The pod-resources API does not name all pods: those of
// a kubelet that has just started, and those whose init containers alone have a device.
func (a *Answer) given(f Facts, addresses map[string]bool) {
	pods := map[string]bool{}
	for id, uids := range f.Given {
		card, _, _ := strings.Cut(id, "-p")
		if address, err := sysfs.ParseAddress(card); err == nil && addresses[address] {
			for _, uid := range uids {
				pods[uid] = true
			}
		}
	}
	for _, uid := range sorted(pods) {
		a.unknown("by the kubelet's checkpoint the pod with the UID "+uid+" has the card, and the kubelet does not name it",
			"ask again in a few seconds; kubectl get pods -A -o "+
				"custom-columns=UID:.metadata.uid,NAMESPACE:.metadata.namespace,NAME:.metadata.name shows the pod, if it has not ended")
	}
}

// mostProcesses limits the reasons, because anyone can start processes.
const mostProcesses = 20

// processes adds the processes that have a node of the card open.
func (a *Answer) processes(f Facts) {
	names := map[sysfs.DeviceNumber]string{}
	for _, function := range f.Card.Functions {
		for _, node := range function.Nodes {
			names[node.Number] = node.Name
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
		group := ""
		if p.Group != "" {
			group = " in " + p.Group
		}
		a.no(fmt.Sprintf("process %d (%s)%s has %s open", p.PID, p.Command, group, strings.Join(open, ", ")), "end it")
	}
	if f.ProcessesErr != nil && f.CardErr == nil {
		a.unknown("the processes that have the card open are not all known: "+f.ProcessesErr.Error(), f.Look)
	}
}

// fpgaDrivers are the drivers without users other than the processes that have a node open.
var fpgaDrivers = []string{"", "dfl-pci", "intel-fpga-pci", "pcieport"}

// function adds a function that goes with the card.
func (a *Answer) function(f Function, card string) {
	with := short(f.Address) + " goes with the card"
	if f.PhysFn != "" {
		with += " as a virtual function"
	}
	if f.Driver != "" {
		with += "; its driver is " + f.Driver
	}
	switch {
	case !slices.Contains(fpgaDrivers, f.Driver) && !strings.Contains(f.Driver, "vfio"):
		a.unknown(with+", and its users are not known",
			fmt.Sprintf("end them, then: echo %s > /sys/bus/pci/drivers/%s/unbind", f.Address, f.Driver))
	case f.Address != card:
		a.add(Yes, with, "")
	}
}

// Numbers returns the numbers of all nodes of the card.
func (c Card) Numbers() []sysfs.DeviceNumber {
	var all []sysfs.DeviceNumber
	for _, f := range c.Functions {
		for _, n := range f.Nodes {
			all = append(all, n.Number)
		}
	}
	return all
}

// LookCommand returns a shell command that prints the links, below /proc, to open files and
// mappings of these devices, and errors of processes that it may not look at. stat translates its
// words in other locales than C.
func LookCommand(numbers []sysfs.DeviceNumber) string {
	var of []string
	for _, n := range numbers {
		of = append(of, fmt.Sprintf("%x:%x", n.Major, n.Minor))
	}
	return "LC_ALL=C find /proc/[0-9]*/task/[0-9]*/fd /proc/[0-9]*/map_files -type l -exec stat -L -c '%F %t:%T %n' {} + 2>&1" +
		" | grep -E '^character special file (" + strings.Join(of, "|") + ") |Permission denied'"
}

func short(address string) string { return strings.TrimPrefix(address, "0000:") }

func sorted(set map[string]bool) []string {
	var all []string
	for name := range set {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
