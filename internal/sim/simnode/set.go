package simnode

import (
	"fmt"
	"os"
	"path/filepath"
)

// Set changes an attribute of a hardware port. As with hardware, a reader gets the old value or
// the new one, never an empty file. A missing attribute is made. The other Set functions do so,
// too.
func (n *Node) Set(address string, port int, attribute, value string) error {
	c := n.cards[address]
	if c == nil || port < 0 || port >= len(c.PortNumbers) {
		return fmt.Errorf("simulated node: slot %s has no port %d", address, port)
	}
	return n.SetFile(filepath.Join(n.PortDir(address, port), attribute), value+"\n")
}

// Reprogram gives a hardware port another AFU, as partial reconfiguration does. On hardware,
// afu_id fails with EBUSY meanwhile, and for good if the reconfiguration fails; a plain file
// cannot.
func (n *Node) Reprogram(address string, port int, afu string) error {
	if err := n.Set(address, port, "afu_id", afu); err != nil {
		return err
	}
	n.cards[address].AFUs[port] = afu
	return nil
}

// SetFME changes an attribute of a card's FME, e.g. errors/catfatal_errors.
func (n *Node) SetFME(address, attribute, value string) error {
	if c := n.cards[address]; c == nil || c.PhysFn != "" {
		return fmt.Errorf("simulated node: slot %s has no FME", address)
	}
	return n.SetFile(filepath.Join(n.FMEDir(address), attribute), value+"\n")
}

// SetFile gives the file at path this content.
func (n *Node) SetFile(path, content string) error {
	err := writeFile(path+".new", content)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("simulated node: %w", err)
	}
	return nil
}
