package deviceplugin_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// The shells of the cards with XRT in the model.
const (
	shellA = "xilinx_u250_gen3x16_xdma_shell_4_1"
	shellB = "xilinx_u250_gen3x16_base_4"
)

// xrtCard is a card with XRT in the model.
type xrtCard struct {
	address, user           string // of its slot, and of its user function
	vbnv                    string // of its shell
	in, resetting           bool
	dead, tripped, nodeless bool // tripped: its management function is bad
	seen                    bool // the daemon has read it since it was plugged, and so has the name of its shell
}

// newXRTCards returns two cards: they exchange their render nodes if they are reset at once.
func newXRTCards() (all []*xrtCard) {
	for _, slot := range []string{"60:00", "61:00"} {
		all = append(all, &xrtCard{address: "0000:" + slot + ".0", user: "0000:" + slot + ".1", vbnv: shellA})
	}
	return all
}

// device returns the device of a plugged card.
func (m *model) xrtDevice(c *xrtCard) modelDevice {
	d := modelDevice{id: strings.TrimPrefix(c.user, "0000:"), resource: "amd.com/" + c.vbnv + "-0", good: !c.dead && !c.tripped && !c.nodeless && !c.resetting}
	d.kind = d.resource
	if node, ok := m.d.node.RenderNode(c.user); ok {
		d.nodes, d.numbers = []string{node}, []string{"226:" + strings.TrimPrefix(node, "dri/renderD")}
		d.numbered = append(d.numbered, d.nodes[0], d.numbers[0])
	}
	return d
}

// turnXRT changes one card with XRT at random.
func (m *model) turnXRT(random *rand.Rand) {
	m.d.t.Helper()
	c := m.xrt[random.IntN(len(m.xrt))]
	if !c.in {
		m.plugXRT(c)
		return
	}
	switch turn := random.IntN(8); {
	case turn == 0:
		m.unplugXRT(c)
	case turn == 1:
		m.unplugXRT(c)
		m.plugXRT(c)
	case turn == 2:
		config := filepath.Join(m.d.node.CardDir(c.user), "config")
		if c.dead = !c.dead; c.dead {
			m.d.do(m.d.node.SetFile(config, "\xff\xff\xff\xff"))
		} else {
			m.d.do(m.d.node.SetFile(config, "\xee\x10\x05\x50"))
		}
	case turn == 3:
		c.tripped = !c.tripped
		m.d.do(m.d.node.SetFile(filepath.Join(m.d.node.CardDir(c.address), "firewall.m.16777216/status"), map[bool]string{true: "1\n", false: "0\n"}[c.tripped]))
	case turn == 4 && m.ticks && !c.resetting: // nodes in a directory have no watch
		node, _ := m.d.node.RenderNode(c.user)
		path := filepath.Join(m.d.node.Dev, node)
		if c.nodeless {
			m.d.do(errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600))) // dri leaves with its last node
		} else {
			m.d.do(os.Remove(path))
		}
		c.nodeless = !c.nodeless
	case c.resetting:
		if random.IntN(3) == 0 {
			c.vbnv = otherOf(c.vbnv, shellA, shellB)
		}
		m.d.do(m.d.node.EndReset(c.user, c.vbnv))
		c.resetting = false
	default:
		if !c.seen {
			m.settle("before a card is reset that the daemon may not have read")
		}
		m.leaveXRT(c)
		m.d.do(m.d.node.BeginReset(c.user))
		c.resetting, c.nodeless = true, false
	}
}

func (m *model) plugXRT(c *xrtCard) {
	board, err := simnode.BoardNamed("u250")
	m.d.do(err)
	board.Others = slices.Clone(board.Others) // those of all boards with this name
	board.Others[0].VBNV = c.vbnv
	m.d.do(m.d.node.PlugBoard(board, c.address))
	*c = xrtCard{address: c.address, user: c.user, vbnv: c.vbnv, in: true}
}

func (m *model) unplugXRT(c *xrtCard) {
	m.d.t.Helper()
	m.leaveXRT(c)
	m.d.do(m.d.node.Unplug(c.address))
	c.in = false
}

// leaveXRT is leave for a card with XRT.
func (m *model) leaveXRT(c *xrtCard) {
	m.d.t.Helper()
	d := m.xrtDevice(c)
	if h, held := m.held[d.id]; held && !among(d.numbered, h.given) {
		m.settle("before a card loses its nodes, which are others than were given")
		m.owe(d.id, d.numbered...)
	}
}

func (c *xrtCard) String() string { return fmt.Sprintf("%+v", *c) }
