package simnode

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Values of [Card.Slot], which says which of an AWS card's functions a Card is.
const (
	Application = "application" // the loaded image's function, which is function 0
	Management  = "management"  // stays in place while an image is loaded
)

// plugSlot creates the files of one of an AWS card's functions. Each BAR is a one-page regular file.
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

// Remove removes one of an AWS card's functions until Rescan, like writing to the function's remove file in sysfs.
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
	return n.save() // saves the inode numbers of the deleted directories
}

// Rescan brings back a function of an AWS card after Remove. ids contains the PCI IDs of the newly loaded image,
// formatted like [Card.PCIID]. If ids is empty, the function keeps its IDs.
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

// slotFunction returns the AWS card's function at the given address, even if it has been removed.
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

// changeImage changes the IDs in an application function's config space, which is what happens when an image is loaded
// without a rescan.
func (n *Node) changeImage(c *plugged, _ int) error {
	id, err := c.pciID()
	if err != nil {
		return err
	}
	id.device ^= 0x1000
	return n.SetFile(n.config(c), header(id, false))
}
