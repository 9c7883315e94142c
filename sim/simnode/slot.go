package simnode

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// The function of an AWS card, for [Card.Slot].
const (
	Application = "application" // the function of the loaded image; function 0
	Management  = "management"  // stays while an image is loaded
)

// plugSlot creates the files of a function of an AWS card. The files of BARs are regular files of one page.
func (n *Node) plugSlot(t *tree, c *plugged) {
	dir := n.CardDir(c.Address)
	bars := []string{"resource0", "resource4", "resource4_wc"}
	if c.Slot == Management {
		bars = bars[:1]
	}
	for _, name := range bars {
		t.file(filepath.Join(dir, name), strings.Repeat("\x00", 4096))
	}
	t.link(dir, n.sys(busDir, c.Address))
}

// Remove removes a function of an AWS card, as its file remove in sysfs does, until Rescan.
func (n *Node) Remove(address string) error {
	c, err := n.slotFunction(address)
	if err == nil && !c.Removed {
		c.Removed = true
		if err = n.save(); err == nil {
			err = errors.Join(n.directories.removeAll(n.sys(busDir, c.Address)), n.directories.removeAll(n.CardDir(c.Address)))
		}
	}
	if err != nil {
		return fmt.Errorf("simulated node: remove %s: %w", address, err)
	}
	return n.save() // saves the numbers of the deleted directories
}

// Rescan finds a removed function of an AWS card. ids are the ids of the image that was loaded since the removal, in
// the form of [Card.PCIID]; "": the function keeps its ids.
func (n *Node) Rescan(address, ids string) error {
	c, err := n.slotFunction(address)
	if err == nil && c.Removed {
		if ids != "" {
			c.PCIID = ids
		}
		var id pciID
		if id, err = c.pciID(); err == nil {
			c.Removed = false
			err = n.plug(c, id)
		}
	}
	if err != nil {
		return fmt.Errorf("simulated node: rescan %s: %w", address, err)
	}
	return n.save()
}

// slotFunction returns the function of an AWS card at this address, which may have been removed.
func (n *Node) slotFunction(address string) (*plugged, error) {
	c := n.cards[address]
	switch {
	case c == nil || c.Slot == "":
		return nil, fmt.Errorf("slot %s: found no function of an AWS card", address)
	case c.Partial:
		return nil, c.partial()
	}
	return c, nil
}

// changeImage changes the ids in the config space of an application function, as loading an image without a rescan
// does.
func (n *Node) changeImage(c *plugged, _ int) error {
	id, err := c.pciID()
	if err != nil {
		return err
	}
	id.device ^= 0x1000
	return n.SetFile(n.config(c), header(id, false))
}
