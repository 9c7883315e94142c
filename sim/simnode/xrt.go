package simnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Drivers of the two functions of a card with XRT.
const (
	XRTDriver        = "xocl"
	ManagementDriver = "xclmgmt"
)

const (
	defaultVBNV = "xilinx_u250_gen3x16_xdma_shell_4_1"
	firstRender = 128 // the lowest minor of a render node

	// Names of xocl's directories, and of xclmgmt's firewall directory (privileged), in the function's directory.
	rom        = "rom.u.0"
	firewall   = "firewall.u.16777216"
	privileged = "firewall.m.16777216"
	drm        = "drm"
)

// resetFiles lists the files and directories that xocl removes for a reset, once it has removed drm.
var resetFiles = []string{"dev_offline", "device_bad_state", "ready", "interface_uuids", "logic_uuids", rom, firewall}

// renderNode returns the name of the function's render node. The function must be bound to xocl.
func (c *plugged) renderNode() string { return "dri/renderD" + strconv.Itoa(c.Function.Render) }

// bindXRT creates xocl's files in the driver's order, ending with user_pf.
func (n *Node) bindXRT(t *tree, c *plugged) {
	n.addXRT(t, c)
	dir := n.CardDir(c.Address)
	t.file(filepath.Join(dir, "shutdown"), "0\n")
	t.file(filepath.Join(dir, "user_pf"), "")
}

// addXRT creates the files that xocl removes for a reset.
func (n *Node) addXRT(t *tree, c *plugged) {
	dir, f := n.CardDir(c.Address), c.Function
	vbnv := c.VBNV
	if vbnv == "" {
		vbnv = defaultVBNV
	}
	t.file(filepath.Join(dir, rom, "VBNV"), vbnv+"\n")
	t.file(filepath.Join(dir, rom, "timestamp"), "0\n")
	t.file(filepath.Join(dir, rom, "FPGA"), "xcu250-figd2104-2L-e\n")
	t.file(filepath.Join(dir, firewall, "detected_time"), "0\n")
	major := n.renderMajor()
	t.file(filepath.Join(dir, drm, "renderD"+strconv.Itoa(f.Render), "dev"), fmt.Sprintf("%d:%d\n", major, f.Render))
	n.node(t, c.renderNode(), major, f.Render)
	if c.InterfaceID != "" {
		t.file(filepath.Join(dir, "interface_uuids"), c.InterfaceID+"\n")
		t.file(filepath.Join(dir, "logic_uuids"), c.InterfaceID+"\n")
	}
	t.file(filepath.Join(dir, "ready"), "0x1\n")
	t.file(filepath.Join(dir, "device_bad_state"), "0\n")
	t.file(filepath.Join(dir, "dev_offline"), "0\n")
}

// bindManagement creates xclmgmt's files. The simulated management function doesn't have a device node.
func (n *Node) bindManagement(t *tree, c *plugged) {
	dir := n.CardDir(c.Address)
	t.file(filepath.Join(dir, privileged, "status"), "0\n")
	t.file(filepath.Join(dir, "ready"), "1\n")
	t.file(filepath.Join(dir, "dev_offline"), "0\n")
	t.file(filepath.Join(dir, "mgmt_pf"), "")
}

// removeXRT removes the device node, then drm, and then the given files.
func (n *Node) removeXRT(c *plugged, files ...string) error {
	dir, f := n.CardDir(c.Address), c.Function
	if f.Render != 0 {
		if err := os.RemoveAll(filepath.Join(n.Dev, c.renderNode())); err != nil {
			return err
		}
		_ = os.Remove(filepath.Join(n.Dev, "dri")) // succeeds only if the directory is empty, as in devtmpfs
		if err := n.directories.removeAll(filepath.Join(dir, drm)); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := n.directories.removeAll(filepath.Join(dir, file)); err != nil {
			return err
		}
	}
	if f.Render != 0 {
		f.Render = 0
	}
	return nil
}

// unbindXRT removes all of xocl's or xclmgmt's files.
func (n *Node) unbindXRT(c *plugged) error {
	return n.removeXRT(c, slices.Concat([]string{"user_pf", "shutdown", "mgmt_pf", privileged, drm}, resetFiles)...)
}

// BeginReset starts resetting a card with XRT, given its user function's address: xocl removes its device node and most
// of its files, but stays bound.
func (n *Node) BeginReset(address string) error {
	c, err := n.user(address)
	if err == nil && c.Function.Render == 0 {
		err = fmt.Errorf("%s: found a card that is being reset", address)
	}
	if err == nil {
		err = n.SetFile(filepath.Join(n.CardDir(address), "dev_offline"), "1\n")
	}
	if err == nil {
		err = errors.Join(n.removeXRT(c, resetFiles...), n.save())
	}
	if err != nil {
		return fmt.Errorf("simulated node: reset: %w", err)
	}
	return nil
}

// EndReset ends a reset. The card gets the lowest free render node. vbnv is the card's new shell, or "" if it keeps the
// old one.
func (n *Node) EndReset(address, vbnv string) error {
	c, err := n.user(address)
	if err == nil && c.Function.Render != 0 {
		err = fmt.Errorf("%s: found a card that is not being reset", address)
	}
	if err == nil {
		if vbnv != "" {
			c.VBNV = vbnv
		}
		c.Function.Render = n.free(renders, 1)[0]
		err = n.save()
	}
	if err == nil {
		t := n.tree()
		n.addXRT(t, c)
		err = t.err
	}
	if err != nil {
		return fmt.Errorf("simulated node: reset: %w", err)
	}
	return nil
}

// user returns the plugged-in function at the given address, which must be bound to xocl.
func (n *Node) user(address string) (*plugged, error) {
	c, err := n.function(address)
	if err == nil && c.Function.Driver != XRTDriver {
		err = fmt.Errorf("%s: found driver %q, want %s", address, c.Function.Driver, XRTDriver)
	}
	return c, err
}

// management returns the management function in c's slot, or nil if there is none.
func (n *Node) management(c *plugged) *plugged {
	for _, o := range n.cards {
		if o.Function != nil && o.Function.Driver == ManagementDriver && slotOf(o.Address) == slotOf(c.Address) {
			return o
		}
	}
	return nil
}

// RenderNode returns the name of the render node for a card with XRT. ok is false while the card doesn't have one.
func (n *Node) RenderNode(address string) (name string, ok bool) {
	c := n.cards[address]
	if c == nil || c.Function == nil || c.Function.Render == 0 {
		return "", false
	}
	return c.renderNode(), true
}

// healXRT restores the files of the management function and of the function bound to xocl.
func (n *Node) healXRT(c *plugged) error {
	if m := n.management(c); m != nil {
		if err := n.restoreFile(filepath.Join(n.CardDir(m.Address), privileged, "status"), "0\n"); err != nil {
			return err
		}
	}
	if c.Function.Render == 0 {
		return n.EndReset(c.Address, "")
	}
	return nil
}

// renderMajor returns the render nodes' major number.
func (n *Node) renderMajor() int {
	if n.Mknod {
		return 124 // as in majors
	}
	return 226
}

// restoreFile writes a file unless it already has this content, because any write makes the daemon read the card.
func (n *Node) restoreFile(path, content string) error {
	if text, err := os.ReadFile(path); err == nil && string(text) == content {
		return nil
	}
	return n.SetFile(path, content)
}
