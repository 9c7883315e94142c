package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/programming/fpga"
)

// device holds the flags that select a card and optionally one of its ports.
type device struct {
	name string
	port int
}

// addTo adds the --device flag to a command.
func (d *device) addTo(cmd *cobra.Command) {
	cmd.Flags().VarP(&once{value: &d.name}, "device", "d", "`card`, given as a PCI address, an FME or a port")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if d.name == "" {
			return errors.New("--device: found none, want a card: accelerator-fpga list-port")
		}
		return noArgument(nil, args)
	}
}

func (d *device) addPortTo(cmd *cobra.Command) {
	cmd.Flags().IntVarP(&d.port, "port", "p", -1, "port `number`, unless --device is a port")
	cmd.Flags().Lookup("port").DefValue = "0" // a zero value, so that the help doesn't mention a default
}

// once is a flag that can be given only once. Otherwise, if a user gave two cards, only the last one would be
// programmed.
type once struct {
	value *string
	set   bool
}

func (o *once) String() string {
	if o.value == nil {
		return ""
	}
	return *o.value
}

func (o *once) Type() string { return "string" }

func (o *once) Set(s string) error {
	if o.set {
		return fmt.Errorf("found a second one after %q, want one", *o.value)
	}
	*o.value, o.set = s, true
	return nil
}

// find returns the card and, if --device or --port selects one, the port.
func (d *device) find(s *settings) (fpga.Host, fpga.Card, *fpga.Port, error) {
	host, err := s.host()
	if err != nil {
		return host, fpga.Card{}, nil, err
	}
	card, port, err := fpga.Find(host, d.name)
	switch {
	case err != nil || d.port < 0:
	case port == nil:
		var p fpga.Port
		p, err = card.Port(d.port)
		port = &p
	case port.Number != d.port:
		err = d.differs(*port)
	}
	return host, card, port, err
}

// differs returns the error for a --port that contradicts the port in --device.
func (d *device) differs(port fpga.Port) error {
	return fmt.Errorf("--port: found %d with --device %s, want %d or none", d.port, d.name, port.Number)
}

// findPort returns the card and the port. --device or --port must select a port unless the card has only one.
func (d *device) findPort(s *settings) (fpga.Host, fpga.Card, fpga.Port, error) {
	host, card, port, err := d.find(s)
	switch {
	case err != nil:
	case port != nil:
		return host, card, *port, nil
	case len(card.Ports) == 1:
		return host, card, card.Ports[0], nil
	default:
		err = fmt.Errorf("--port: found none, want one of the %d ports of card %s: accelerator-fpga list-port", len(card.Ports), card.ID())
	}
	return host, card, fpga.Port{}, err
}

func newListFME(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list-fme",
		Short: "List the cards' management engines (FMEs)",
		Long: `List the FMEs of this node's cards, with the card's PCI address and ports, and the
interface that its bitstreams must fit.`,
		Example: `  accelerator-fpga list-fme
  accelerator-fpga list-fme -o json | jq -r '.[].interfaceId'`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cards, err := s.cards()
			if err != nil && len(cards) == 0 {
				return asFailure(err)
			}
			rows := []fmeRow{}
			for _, c := range cards {
				if c.FME != "" && c.FMEAddress == c.Address {
					rows = append(rows, fmeRowOf(c, nil))
				}
			}
			return asFailure(errors.Join(printFMEs(cmd.OutOrStdout(), rows, s.json()), err))
		},
	}
}

func newListPort(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list-port",
		Short: "List the cards' ports and their AFUs",
		Long: `List the ports of this node's cards, with their current AFU, their FME, and the
interface that bitstreams must fit. If the AFU is "disabled", the port is being
programmed, or programming it has failed.`,
		Example: `  accelerator-fpga list-port
  accelerator-fpga list-port -o json | jq -r '.[] | [.id, .afuId] | @tsv'`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cards, err := s.cards()
			if err != nil && len(cards) == 0 {
				return asFailure(err)
			}
			rows := []portRow{}
			for _, c := range cards {
				for _, p := range c.Ports {
					rows = append(rows, portRowOf(c, p, nil))
				}
			}
			return asFailure(errors.Join(printPorts(cmd.OutOrStdout(), rows, s.json()), err))
		},
	}
}

// cards returns the node's cards. If it fails, it also returns the cards it was able to read.
func (s *settings) cards() ([]fpga.Card, error) {
	host, err := s.host()
	if err != nil {
		return nil, err
	}
	return fpga.Cards(host)
}

func newFPGAInfo(s *settings) *cobra.Command {
	var d device
	cmd := &cobra.Command{
		Use:   "fpgainfo --device CARD",
		Short: "Show a card's FME and ports",
		Long:  `Show the IDs, state and errors of a card's FME and ports, as found in sysfs.`,
		Example: `  accelerator-fpga fpgainfo --device 3b:00.0
  accelerator-fpga fpgainfo --device /dev/dfl-fme.0 -o json | jq -r '.ports[].afuId'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, card, _, err := d.find(s)
			if err != nil {
				return asFailure(err)
			}
			var fme *fmeRow
			if card.FME != "" {
				attributes, err := fpga.FMEAttributes(host, card)
				if err != nil {
					return asFailure(err)
				}
				row := fmeRowOf(card, attributes)
				fme = &row
			}
			ports := []portRow{}
			for _, p := range card.Ports {
				attributes, err := fpga.PortAttributes(host, card, p)
				if err != nil {
					return asFailure(err)
				}
				ports = append(ports, portRowOf(card, p, attributes))
			}
			return asFailure(printCard(cmd.OutOrStdout(), cardRow{card.ID(), card.Address, card.Driver, fme, ports}, s.json()))
		},
	}
	d.port = -1
	d.addTo(cmd)
	return cmd
}

func newFMEInfo(s *settings) *cobra.Command {
	var d device
	cmd := &cobra.Command{
		Use:   "fmeinfo --device CARD",
		Short: "Show a card's management engine (FME)",
		Long: `Show a card's FME, as found in sysfs. ports_num includes released ports. "manager state"
is the result of the last time that the card was programmed. The command also shows the
readings and limits of all the card's sensors: temperatures, power, voltages and currents.`,
		Example: `  accelerator-fpga fmeinfo --device dfl-fme.0
  accelerator-fpga fmeinfo --device 3b:00.0 -o json | jq -r .interfaceId`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, card, _, err := d.find(s)
			if err != nil {
				return asFailure(err)
			}
			if card.FME == "" {
				return asFailure(fmt.Errorf("card %s: FME: found none: the physical function is not on this node", card.ID()))
			}
			attributes, err := fpga.FMEAttributes(host, card)
			if err != nil {
				return asFailure(err)
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), sensorsWithin, fmt.Errorf("no answer within %s", sensorsWithin))
			defer cancel()
			row := fmeRowOf(card, attributes)
			if row.Sensors, err = sensorRows(ctx, host, card.FMEAddress); err != nil {
				row.SensorError = err.Error()
			}
			return asFailure(printFME(cmd.OutOrStdout(), row, s.json()))
		},
	}
	d.port = -1
	d.addTo(cmd)
	return cmd
}

func newPortInfo(s *settings) *cobra.Command {
	var d device
	cmd := &cobra.Command{
		Use:   "portinfo --device CARD [--port N]",
		Short: "Show a port of a card",
		Long: `Show a port's AFU, power state and errors, as found in sysfs. The command doesn't open
the port, because closing it would reset the AFU.`,
		Example: `  accelerator-fpga portinfo --device dfl-port.0
  accelerator-fpga portinfo --device 3b:00.0 --port 1 -o json | jq -r .afuId`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, card, port, err := d.findPort(s)
			if err != nil {
				return asFailure(err)
			}
			attributes, err := fpga.PortAttributes(host, card, port)
			if err != nil {
				return asFailure(err)
			}
			return asFailure(printPort(cmd.OutOrStdout(), portRowOf(card, port, attributes), s.json()))
		},
	}
	d.addTo(cmd)
	d.addPortTo(cmd)
	return cmd
}
