package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Set changes an attribute of a hardware port in one step, as hardware does: a
// reader sees the old value or the new one, never an empty file. One that is not
// there is made. So do all the Set… below.
func (n *Node) Set(address string, port int, attribute, value string) error {
	c := n.cards[address]
	if c == nil || port < 0 || port >= len(c.ports) {
		return fmt.Errorf("simulated node: slot %s has no port %d", address, port)
	}
	return n.set(filepath.Join(n.PortDir(address, port), attribute), value+"\n")
}

// Reprogram gives a hardware port another AFU, in one step: what partial
// reconfiguration comes to in the end. On hardware afu_id fails with EBUSY
// meanwhile, and for good if it goes wrong; a plain file cannot.
func (n *Node) Reprogram(address string, port int, afu string) error {
	if err := n.Set(address, port, "afu_id", afu); err != nil {
		return err
	}
	n.cards[address].afu[port] = afu
	return nil
}

// SetFME changes an attribute of a card's FME, e.g. errors/catfatal_errors.
func (n *Node) SetFME(address, attribute, value string) error {
	if err := n.hasFME(address); err != nil {
		return err
	}
	return n.set(filepath.Join(n.FMEDir(address), attribute), value+"\n")
}

// SetManager changes the state of a card's FPGA manager, in the words of
// drivers/fpga/fpga-mgr.c, e.g. "write error".
func (n *Node) SetManager(address, state string) error {
	if err := n.hasFME(address); err != nil {
		return err
	}
	c := n.cards[address]
	manager := filepath.Join("dfl-fme-mgr."+strconv.Itoa(c.fme), "fpga_manager", "fpga"+strconv.Itoa(c.manager))
	return n.SetFME(address, filepath.Join(manager, "state"), state)
}

// SetHwmon changes an attribute of that of a card's two hwmon devices that has
// it, e.g. temp1_crit_alarm.
func (n *Node) SetHwmon(address, alarm, value string) error {
	if err := n.hasFME(address); err != nil {
		return err
	}
	for _, number := range n.cards[address].hwmon {
		path := filepath.Join(n.FMEDir(address), "hwmon", "hwmon"+strconv.Itoa(number), alarm)
		if _, err := os.Lstat(path); err == nil {
			return n.set(path, value+"\n")
		}
	}
	return fmt.Errorf("simulated node: no hwmon device of slot %s has %s", address, alarm)
}

// SetCard changes an attribute of a card's PCI directory. The value of config is
// written as it is: it is no line.
func (n *Node) SetCard(address, attribute, value string) error {
	if n.cards[address] == nil {
		return fmt.Errorf("simulated node: slot %s is empty", address)
	}
	if attribute != "config" {
		value += "\n"
	}
	return n.set(filepath.Join(n.CardDir(address), attribute), value)
}

// SetRootPort changes an attribute of the root port that all cards hang from; it
// is their slot, too.
func (n *Node) SetRootPort(attribute, value string) error {
	return n.set(filepath.Join(n.bridgeDir(), attribute), value+"\n")
}

func (n *Node) hasFME(address string) error {
	if c := n.cards[address]; c == nil || c.PhysFn != "" {
		return fmt.Errorf("simulated node: slot %s has no FME", address)
	}
	return nil
}

// set writes a file in one step.
func (n *Node) set(path, content string) error {
	t := n.tree()
	t.file(path+".new", content)
	if t.err == nil {
		t.err = os.Rename(path+".new", path)
	}
	if t.err != nil {
		return fmt.Errorf("simulated node: %w", t.err)
	}
	return nil
}
