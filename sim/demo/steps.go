package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// step is a change and the effect it should have on the kubelet.
type step struct {
	name string
	do   func(ctx context.Context) error
	// await waits for the effect of the change. It returns the kubelet's state and when the kubelet reached that state,
	// even if it also returns an error.
	await func(ctx context.Context) (received string, at time.Time, err error)
	// least is the minimum duration of the step. It isn't 0 for a recovery, because a recovered device stays unhealthy
	// during the hold.
	least time.Duration
}

var (
	cardA = simnode.Card{
		Address: "0000:3b:00.0", Ports: 2, NUMANode: 0,
		AFUID: "d8424dc4a4a3c413f89e433683f9040b", InterfaceID: "69528db6eb31577a8c3668f9faa081f6",
	}
	cardB = simnode.Card{
		Address: "0000:5e:00.0", Ports: 1, NUMANode: 1,
		AFUID: "f7df405cbd7acf7222f144b0b93acd18", InterfaceID: "9346116da52d5ca8b06aa9a389ef7c8d",
	}
)

const (
	portA0 = "3b:00.0"
	portA1 = "3b:00.0-p1"
	portB0 = "5e:00.0"

	noError  = "0x0"
	ap6Error = "0x4000000000000" // bit 50: the port was shut down because of power or heat
)

// health maps the ID of each device on a list to whether the device is healthy.
type health map[string]bool

func (s *stage) steps() []step {
	return []step{
		{"a card with two ports is plugged in", s.plug(cardA), s.list(health{portA0: true, portA1: true}), 0},
		{"a second card is plugged in", s.plug(cardB), s.list(health{portA0: true, portA1: true, portB0: true}), 0},
		{"a pod gets " + portB0, s.nothing, s.allocation(portB0), 0},
		{"port 1 of the first card breaks (AP6)", s.set(portErrors, ap6Error), s.list(health{portA0: true, portA1: false, portB0: true}), 0},
		{fmt.Sprintf("it heals (healthy after the hold of %s)", s.Hold), s.set(portErrors, noError), s.list(health{portA0: true, portA1: true, portB0: true}), s.Hold},
		{"the driver of that port is unbound", s.unbind, s.list(health{portA0: true, portA1: false, portB0: true}), 0},
		{fmt.Sprintf("it is bound again (healthy after the hold of %s)", s.Hold), s.bind, s.list(health{portA0: true, portA1: true, portB0: true}), s.Hold},
		{"the second card, which the pod holds, is pulled out", s.unplug(cardB), s.list(health{portA0: true, portA1: true, portB0: false}), 0},
		{fmt.Sprintf("it is plugged in again (healthy after %s)", s.Hold), s.plug(cardB), s.list(health{portA0: true, portA1: true, portB0: true}), s.Hold},
		{"the first card, which no pod holds, is pulled out", s.unplug(cardA), s.list(health{portB0: true}), 0},
		{"the kubelet restarts", s.restart, s.registered(health{portB0: true}), 0},
	}
}

const (
	cardV = "0000:5e:00.0" // on the n6001-vfs board
	vf0   = "5e:00.1"
	vf1   = "5e:00.2"
	vf2   = "5e:00.3"
)

// functionSteps returns the steps for a card with functions bound to vfio-pci.
func (s *stage) functionSteps() []step {
	list := func(first, others bool) func(context.Context) (string, time.Time, error) {
		return s.list(health{vf0: first, vf1: others, vf2: others})
	}
	again := fmt.Sprintf("it is bound again (healthy after the hold of %s)", s.Hold)
	return []step{
		{"a card with three vfio-pci functions is plugged in", s.plugBoard("n6001-vfs", cardV), list(true, true), 0},
		{"a pod gets " + vf0, s.nothing, s.allocation(vf0), 0},
		{"the card no longer answers (its physical function)", s.change(func(n *simnode.Node) error { return n.Break(vf0, "pci-gone") }), list(false, false), 0},
		{fmt.Sprintf("it heals (healthy after the hold of %s)", s.Hold), s.change(func(n *simnode.Node) error { return n.Heal(vf0) }), list(true, true), s.Hold},
		{"the function that the pod holds is unbound", s.change(func(n *simnode.Node) error { return n.SetDriver("0000:"+vf0, "") }), list(false, true), 0},
		{again, s.change(func(n *simnode.Node) error { return n.SetDriver("0000:"+vf0, simnode.VFIODriver) }), list(true, true), s.Hold},
		{"the card is pulled while the pod holds a function", s.change(func(n *simnode.Node) error { return n.Unplug(cardV) }), s.list(health{vf0: false}), 0},
	}
}

const (
	cardF2  = "0000:5e:00.0" // on the aws-f2 board
	slotF2  = "5e:00.0"
	imageF2 = "1d0f:f010:1d0f:1d51"
)

// awsSteps returns the steps that use a card on an AWS instance.
func (s *stage) awsSteps() []step {
	list := func(healthy bool) func(context.Context) (string, time.Time, error) {
		return s.list(health{slotF2: healthy})
	}
	loaded := s.change(func(n *simnode.Node) error { return n.Rescan(cardF2, imageF2) })
	return []step{
		{"a card is found, its slot has no image", s.plugBoard("aws-f2", cardF2), list(true), 0},
		{"an image is loaded: the function is removed", s.change(func(n *simnode.Node) error { return n.Remove(cardF2) }), list(false), 0},
		{fmt.Sprintf("a rescan finds the image (healthy after %s)", s.Hold), loaded, list(true), s.Hold},
		{"a pod gets " + slotF2, s.nothing, s.allocation(slotF2), 0},
		{"another image is loaded without a rescan", s.change(func(n *simnode.Node) error { return n.Break(slotF2, "not-rescanned") }), list(false), 0},
		{fmt.Sprintf("removed and rescanned (healthy after %s)", s.Hold), s.change(func(n *simnode.Node) error {
			return errors.Join(n.Remove(cardF2), n.Rescan(cardF2, imageF2))
		}), list(true), s.Hold},
	}
}

const (
	cardX = "0000:5e:00.0" // on the u250 board
	user  = "5e:00.1"
)

// xrtSteps returns the steps that use a card with XRT.
func (s *stage) xrtSteps() []step {
	hold := fmt.Sprintf("(healthy after %s)", s.Hold)
	return []step{
		{"a card with XRT is plugged in", s.plugBoard("u250", cardX), s.list(health{user: true}), 0},
		{"a pod gets " + user, s.nothing, s.allocation(user), 0},
		{"a firewall cuts off the pod's program", s.change(func(n *simnode.Node) error { return n.Break(user, "firewall-tripped") }), s.list(health{user: false}), 0},
		{"the firewall is cleared " + hold, s.change(func(n *simnode.Node) error { return n.Heal(user) }), s.list(health{user: true}), s.Hold},
		{"the pod resets the card: no PCI event", s.change(func(n *simnode.Node) error { return n.BeginReset("0000:" + user) }), s.list(health{user: false}), 0},
		{"the reset ends " + hold, s.change(func(n *simnode.Node) error { return n.EndReset("0000:"+user, "") }), s.list(health{user: true}), s.Hold},
		{"the card is pulled while the pod holds it", s.change(func(n *simnode.Node) error { return n.Unplug(cardX) }), s.list(health{user: false}), 0},
	}
}

func (s *stage) plugBoard(name, address string) func(context.Context) error {
	return func(context.Context) error {
		board, err := simnode.BoardNamed(name)
		if err != nil {
			return err
		}
		return s.node.PlugBoard(board, address)
	}
}

func (s *stage) change(do func(*simnode.Node) error) func(context.Context) error {
	return func(context.Context) error { return do(s.node) }
}

func (s *stage) nothing(context.Context) error { return nil }

func (s *stage) plug(c simnode.Card) func(context.Context) error {
	return func(context.Context) error { return s.node.Plug(c) }
}

func (s *stage) unplug(c simnode.Card) func(context.Context) error {
	return func(context.Context) error { return s.node.Unplug(c.Address) }
}

const portErrors = "errors/errors"

func (s *stage) set(attribute, value string) func(context.Context) error {
	return func(context.Context) error { return s.node.Set(cardA.Address, 1, attribute, value) }
}

func (s *stage) unbind(context.Context) error { return s.node.Unbind(cardA.Address, 1) }
func (s *stage) bind(context.Context) error   { return s.node.Bind(cardA.Address, 1) }

// restart stops the kubelet and starts a new one, which deletes all sockets first.
func (s *stage) restart(ctx context.Context) (err error) {
	s.kubelet.Stop()
	next, err := simkubelet.Start(context.WithoutCancel(ctx), s.paths.KubeletDir, simkubelet.Behaviour{})
	if err != nil {
		return err
	}
	s.kubelet = next
	s.pods.Join(next)
	return nil
}

// list returns a function that waits for the kubelet to receive a list with exactly the given devices and health.
func (s *stage) list(want health) func(context.Context) (string, time.Time, error) {
	return func(ctx context.Context) (string, time.Time, error) {
		got, err := s.kubelet.AwaitList(ctx, s.Resource, func(l simkubelet.List) bool { return maps.Equal(known(l), want) })
		return s.describe(got.Devices), got.Received, err
	}
}

// registered is like list, but the function also checks that the daemon has registered with this kubelet exactly once.
func (s *stage) registered(want health) func(context.Context) (string, time.Time, error) {
	return func(ctx context.Context) (string, time.Time, error) {
		received, at, err := s.list(want)(ctx)
		if n := s.kubelet.Registrations(s.Resource); err == nil && n != 1 {
			err = fmt.Errorf("found %d registrations after one restart, want 1", n)
		}
		return "registered once, " + received, at, err
	}
}

// allocation returns a function that allocates a device the way the kubelet does for a pod.
func (s *stage) allocation(id string) func(context.Context) (string, time.Time, error) {
	return func(ctx context.Context) (string, time.Time, error) {
		answer, err := s.kubelet.Allocate(ctx, s.Resource, id)
		if err != nil {
			return err.Error(), time.Time{}, err
		}
		s.pods.Hold("default", "demo", "main", s.Resource, id)
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(answer.Envs)) {
			parts = append(parts, name+"="+answer.Envs[name])
		}
		for _, d := range answer.Devices {
			parts = append(parts, d.ContainerPath+" "+d.Permissions)
		}
		for _, m := range answer.Mounts {
			parts = append(parts, filepath.Base(m.ContainerPath))
		}
		return strings.Join(parts, "  "), time.Now(), nil
	}
}

// known returns the health of a list's devices.
func known(l simkubelet.List) health {
	h := make(health, len(l.Devices))
	for _, d := range l.Devices {
		h[d.ID] = d.Healthy
	}
	return h
}

// describe formats a list of devices as a single line.
func (s *stage) describe(devices []simkubelet.Device) string {
	if len(devices) == 0 {
		return "no device"
	}
	var parts []string
	for _, d := range devices {
		word, colour := "Healthy", terminal.Green
		if !d.Healthy {
			word, colour = "Unhealthy", terminal.Red
		}
		parts = append(parts, d.ID+" "+s.paint(colour, word))
	}
	return strings.Join(parts, "  ")
}

func (s *stage) paint(colour, text string) string {
	if !s.Colour {
		return text
	}
	return colour + text + terminal.Plain
}
