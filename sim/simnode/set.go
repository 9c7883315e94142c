package simnode

import (
	"fmt"
	"os"
	"path/filepath"
)

// Set changes an attribute of a hardware port, creating the attribute if necessary. As on real hardware, a reader gets
// either the old value or the new one, never an empty file. This is true of all Set functions.
func (n *Node) Set(address string, port int, attribute, value string) error {
	c := n.cards[address]
	if c == nil || port < 0 || port >= len(c.PortNumbers) {
		return fmt.Errorf("simulated node: slot %s: found no port %d", address, port)
	}
	return n.SetFile(filepath.Join(n.PortDir(address, port), attribute), value+"\n")
}

// Reprogram changes a hardware port's AFU, as partial reconfiguration does. On real hardware, reading afu_id fails with
// EBUSY during the reconfiguration, and keeps failing if the reconfiguration fails. Regular files can't simulate this.
func (n *Node) Reprogram(address string, port int, afu string) error {
	if err := n.Set(address, port, "afu_id", afu); err != nil {
		return err
	}
	n.cards[address].AFUs[port] = afu
	return nil
}

// SetFME changes an attribute of a card's FME, such as errors/catfatal_errors.
func (n *Node) SetFME(address, attribute, value string) error {
	if c := n.cards[address]; c == nil || c.PhysFn != "" {
		return fmt.Errorf("simulated node: slot %s: found no FME", address)
	}
	return n.SetFile(filepath.Join(n.FMEDir(address), attribute), value+"\n")
}

// SetFile replaces a file's content.
func (n *Node) SetFile(path, content string) error {
	err := os.WriteFile(path+".new", []byte(content), 0o644)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("simulated node: %w", err)
	}
	return nil
}
