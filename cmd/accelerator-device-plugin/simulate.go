package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// simulation holds the flags of simulate.
type simulation struct {
	board, address, afu, region string
}

func newSimulate() *cobra.Command {
	var s simulation
	var boards, breaks strings.Builder
	for _, b := range simnode.Boards {
		fmt.Fprintf(&boards, "  %-20s  %s\n", b.Name, b.Text)
	}
	for _, b := range simnode.Breaks {
		fmt.Fprintf(&breaks, "  %-20s  %s\n", b.Reason, b.Text)
	}
	cmd := &cobra.Command{
		Use:   "simulate DIR [plug ADDRESS | pull ADDRESS | break DEVICE [REASON] | heal DEVICE]",
		Short: "Create or change a simulated node, to try out the chart without a card",
		Long: `Create a simulated node in DIR, or change an existing one, and print its devices.
DIR/sys and DIR/dev have the same layout as with the kernel's drivers. If you set the
chart's simulatedNode value to DIR, they are used instead of /sys and /dev.

If you run the command as root, it creates character devices, which the kubelet can
give to pods. Opening one fails, because their numbers don't belong to any driver. If
you run it as another user, it creates regular files, which pods can't get.

ADDRESS is a slot, written as DDDD:BB:DD.F or BB:DD.F. DEVICE is a card's address,
ADDRESS-pN for the card's port N, the address of a function on vfio-pci or xocl, or the
address of an AWS card's application function. The daemon advertises functions on
vfio-pci, functions on xocl, and AWS cards only if --families includes vfio, xrt, or
aws, respectively. Functions on vfio-pci also need a resource rule.

DIR must be empty, contain a simulated node, or not exist yet. Other users must not be
able to write to it. To delete the node, remove DIR.

Boards:
` + boards.String() + `
Reasons:
` + strings.TrimSuffix(breaks.String(), "\n"),
		Example: `  accelerator-device-plugin simulate /var/lib/accel-sim --board two-ports
  accelerator-device-plugin simulate /var/lib/accel-sim plug 5e:00.0 --board pac-d5005
  accelerator-device-plugin simulate /var/lib/accel-sim break 3b:00.0-p1
  accelerator-device-plugin simulate /var/lib/accel-sim heal 3b:00.0-p1
  accelerator-device-plugin simulate /var/lib/accel-sim pull 3b:00.0
  accelerator-device-plugin simulate /var/lib/accel-sim`,
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := s.change(args)
			if err != nil {
				return err
			}
			return asFailure(simulate(cmd, args[0], change))
		},
	}
	cmd.Flags().StringVar(&s.board, "board", "", "`NAME` of the board to plug in (default for plug: "+simnode.Boards[0].Name+")")
	cmd.Flags().StringVar(&s.address, "address", "0000:3b:00.0", "`ADDRESS` of the slot for --board; plug takes it as an argument instead")
	cmd.Flags().StringVar(&s.afu, "afu", "", "AFU `ID` of the board's ports (default: the AFU of the board's model)")
	cmd.Flags().StringVar(&s.region, "interface", "", "interface `ID` of the board (default: the interface of the board's model)")
	return cmd
}

// change returns the change to the node that args request, or nil if they don't request one.
func (s simulation) change(args []string) (func(*simnode.Node) error, error) {
	if len(args) == 0 {
		return nil, errors.New("DIR: found none, want the directory of a simulated node")
	}
	verb, words := "", args[1:]
	if len(words) > 0 {
		verb, words = words[0], words[1:]
	}
	most := map[string]int{"": 0, "plug": 1, "pull": 1, "break": 2, "heal": 1}
	n, known := most[verb]
	switch {
	case !known:
		return nil, fmt.Errorf("argument after DIR: found %q, want plug, pull, break or heal", verb)
	case len(words) > n, n > 0 && len(words) == 0:
		return nil, fmt.Errorf("%s: found %d arguments, want %d%s", verb, len(words), min(n, 1), map[bool]string{true: " or 2"}[n == 2])
	case s.board+s.afu+s.region != "" && verb != "" && verb != "plug":
		return nil, fmt.Errorf("%s: found --board, --afu or --interface, want none of them", verb)
	}
	switch verb {
	case "break":
		return func(n *simnode.Node) error {
			return n.Break(words[0], strings.Join(words[1:], ""))
		}, nil
	case "heal":
		return func(n *simnode.Node) error { return n.Heal(words[0]) }, nil
	case "":
		if s.board == "" {
			if s.afu+s.region != "" {
				return nil, errors.New("--board: found none, want a board for --afu and --interface")
			}
			return nil, nil
		}
		words = []string{s.address}
	}
	address, err := sysfs.ParseAddress(words[0])
	if err != nil {
		return nil, fmt.Errorf("ADDRESS: found %q, %w", words[0], err)
	}
	if verb == "pull" {
		return func(n *simnode.Node) error { return n.Unplug(address) }, nil
	}
	board, err := simnode.BoardNamed(cmp.Or(s.board, simnode.Boards[0].Name))
	if err != nil {
		return nil, err
	}
	board.Card.AFUID, board.Card.InterfaceID = cmp.Or(s.afu, board.Card.AFUID), cmp.Or(s.region, board.Card.InterfaceID)
	if _, err := board.At(address); err != nil {
		return nil, err
	}
	return func(n *simnode.Node) error { return n.PlugBoard(board, address) }, nil
}

// simulate changes the node in dir and prints its devices.
func simulate(cmd *cobra.Command, dir string, change func(*simnode.Node) error) (err error) {
	node, err := simnode.Open(cmd.Context(), dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	if change != nil {
		if err := change(node); err != nil {
			return err
		}
	}
	if !node.Mknod {
		fmt.Fprintln(cmd.ErrOrStderr(), "accelerator-device-plugin: pods cannot get these devices: the nodes are regular files, because only root can create character devices")
	}
	return printSimulated(cmd.OutOrStdout(), node)
}

func printSimulated(out io.Writer, node *simnode.Node) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tCARD\tNODE\tAFU")
	for _, d := range node.Devices() {
		path := "-" // AWS cards and cards that are being reset don't have a device node
		if d.Node != "" {
			path = node.Dev + "/" + d.Node
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s%s\n", d.ID, d.Address, path, cmp.Or(d.AFUID, "-"),
			map[bool]string{true: "\tplugged or pulled in part: pull it"}[d.Partial])
	}
	return w.Flush()
}
