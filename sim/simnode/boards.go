package simnode

import (
	"errors"
	"fmt"
	"strings"
)

// Board is a card model, either a real one or one made up for a rare feature.
type Board struct {
	Name    string
	Text    string // a one-line description
	Card    Card   // without an address
	Others  []Card // the slot's other functions, from function 1 on, without addresses
	Virtual bool   // whether Others are virtual functions of Card
}

// IDs from Intel's Acceleration Stack: the interface IDs of releases 1.2 (Arria 10) and 2.0 (D5005), and the AFU IDs of
// the loopback examples.
const (
	nlb0 = "d8424dc4a4a3c413f89e433683f9040b"
	nlb3 = "f7df405cbd7acf7222f144b0b93acd18"

	arria10 = "69528db6eb31577a8c3668f9faa081f6"
	d5005   = "bfac4d851ee856fe8c95865ce1bbaa2d"
)

// Boards lists the boards that can be plugged in by name.
var Boards = []Board{
	{Name: "pac-a10", Text: "PAC with Arria 10 GX: one port with Intel's loopback AFU, NLB mode 0",
		Card: Card{Ports: 1, NUMANode: -1, AFUID: nlb0, InterfaceID: arria10}},
	{Name: "pac-d5005", Text: "PAC D5005: one port with Intel's loopback AFU, NLB mode 3",
		Card: Card{Ports: 1, NUMANode: -1, AFUID: nlb3, InterfaceID: d5005, PCIID: "8086:0b2b:8086:138d"}},
	{Name: "two-ports", Text: "PAC with Arria 10 GX and two ports",
		Card: Card{Ports: 2, NUMANode: -1, AFUID: nlb0, InterfaceID: arria10}},
	{Name: "vf", Text: "PAC with Arria 10 GX and a virtual function, one port each",
		Card: Card{Ports: 1, NUMANode: -1, AFUID: nlb0, InterfaceID: arria10}, Others: []Card{{Ports: 1, NUMANode: -1}}, Virtual: true},
	{Name: "n6001-vfs", Text: "N6001: three virtual functions on vfio-pci, an IOMMU group each",
		Card: Card{NUMANode: -1, Group: OwnGroup, Driver: "pci-pf-stub"}, Others: []Card{vfio(OwnGroup), vfio(OwnGroup), vfio(OwnGroup)}, Virtual: true},
	{Name: "one-group", Text: "card with three functions on vfio-pci, in one IOMMU group",
		Card: vfio(SlotGroup), Others: []Card{vfio(SlotGroup), vfio(SlotGroup)}},
	{Name: "aws-f2", Text: "card of an AWS F2 instance: an application function, and its management function",
		Card: Card{NUMANode: -1, Slot: Application}, Others: []Card{{NUMANode: -1, Slot: Management}}},
	{Name: "u250", Text: "U250 with XRT: a management function on xclmgmt and a user function on xocl",
		Card: xrt(ManagementDriver, "10ee:5004:10ee:000e"), Others: []Card{xrt(XRTDriver, "10ee:5005:10ee:000e")}},
}

// xrt returns a Card for one of a U250's PCI functions.
func xrt(driver, id string) Card {
	return Card{NUMANode: -1, Group: SlotGroup, Driver: driver, PCIID: id}
}

// vfio returns a Card for a PCI function that is bound to vfio-pci.
func vfio(group string) Card { return Card{NUMANode: -1, Group: group, Driver: VFIODriver} }

// BoardNamed returns the board with the given name.
func BoardNamed(name string) (Board, error) {
	var names []string
	for _, b := range Boards {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return Board{}, fmt.Errorf("board: found %q, want one of %s", name, strings.Join(names, ", "))
}

// At returns the board's functions as they would be in a slot, starting with the physical function.
func (b Board) At(address string) ([]Card, error) {
	c := b.Card
	c.Address = address
	if err := c.Check(); err != nil {
		return nil, err
	}
	all := []Card{c}
	slot, function, _ := strings.Cut(address, ".")
	if len(b.Others) > 0 && function != "0" {
		return nil, fmt.Errorf("address: found %q, want function 0 for a board with several functions", address)
	}
	for i, o := range b.Others {
		o.Address, o.AFUID = fmt.Sprintf("%s.%d", slot, i+1), c.AFUID
		if b.Virtual {
			o.PhysFn = address
		}
		all = append(all, o)
	}
	return all, nil
}

// PlugBoard plugs in all of a board's functions. If that fails, it doesn't leave any of them plugged in.
func (n *Node) PlugBoard(b Board, address string) error {
	cards, err := b.At(address)
	if err != nil {
		return err
	}
	for i, c := range cards {
		if err := n.Plug(c); err != nil {
			if i > 0 {
				err = errors.Join(err, n.Unplug(address))
			}
			return err
		}
	}
	return nil
}
