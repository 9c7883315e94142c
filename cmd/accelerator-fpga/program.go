package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/programming/fpga"
)

func newProgram(s *settings) *cobra.Command {
	var f file
	var d device
	var force, dryRun, quiet bool
	var hottest fpga.MaxTemperature
	cmd := &cobra.Command{
		Use:     "pr --device CARD [--port N] FILE",
		Aliases: []string{"program"},
		Short:   "Program a port of a card with a bitstream",
		Long: `Program one of a card's ports, and wait until the port has the bitstream's AFU. The
command needs root. It does nothing if the port already has that AFU. It fails if
  - the bitstream is for another interface
  - the port is disabled because programming it failed
  - the card is too hot (--max-temperature)
  - another process has the port or the card's FME open

Programming takes several seconds. Only one process can program a card at a time, and
others wait. Because the card's driver can't be interrupted, the process stays until
the driver has finished, even if the command has failed after --timeout.`,
		Example: `  accelerator-fpga pr --device 3b:00.0 nlb_400.gbs
  accelerator-fpga pr --device 3b:00.0 --port 1 nlb_400.gbs
  accelerator-fpga pr --device /dev/dfl-fme.0 --dry-run nlb_400.gbs     only check whether the card fits`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := programming.Open(f.path)
			if err != nil {
				return asFailure(err)
			}
			defer b.Close()
			host, card, port, err := d.findPort(s)
			if err != nil {
				return asFailure(err)
			}
			there := !force && b.InterfaceID == card.InterfaceID && fpga.Loaded(port, b)
			if dryRun {
				if err = fpga.Fits(card, port, b); err == nil && !there {
					err = hottest.Check(cmd.Context(), host, card)
				}
				if err != nil {
					return asFailure(fmt.Errorf("card %s, port %d: %w", card.ID(), port.Number, err))
				}
				if err := b.Check(cmd.Context()); err != nil {
					return asFailure(err)
				}
			}
			if !dryRun && !there {
				ctx, cancel := s.deadline(cmd.Context())
				defer cancel()
				p := fpga.Programmer{Host: host, LockDir: s.lockDir, Store: programming.Store(s.store), Always: force, Max: hottest}
				done := progress(cmd.ErrOrStderr(), !quiet && terminal.Is(cmd.ErrOrStderr()),
					fmt.Sprintf("programming port %d of card %s with %s", port.Number, card.ID(), b.Path))
				err := p.Program(ctx, card, port, b)
				done()
				if there = errors.Is(err, fpga.ErrLoaded); err != nil && !there {
					return asFailure(err)
				}
			}
			return asFailure(printProgrammed(stdout(cmd, quiet), card, port, b, s.json(), there, dryRun))
		},
	}
	d.addTo(cmd)
	device := cmd.Args
	f.addTo(cmd)
	file := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return errors.Join(device(cmd, nil), file(cmd, args))
	}
	d.addPortTo(cmd)
	addQuiet(cmd, &quiet)
	addMaxTemperature(cmd, &hottest)
	cmd.Flags().BoolVar(&force, "force", false, "program the port even if it already has the AFU")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check the file and the card without changing anything")
	return cmd
}

// addMaxTemperature adds the --max-temperature flag to a command.
func addMaxTemperature(cmd *cobra.Command, m *fpga.MaxTemperature) {
	cmd.Flags().Var((*maxTemperature)(m), "max-temperature", "don't program a card if its FPGA has reached this temperature in °C, or if any of its parts has reached its own warning limit; with board, only the parts' limits are checked; with off, nothing is checked")
}

// maxTemperature is the value of --max-temperature.
type maxTemperature fpga.MaxTemperature

// String implements [pflag.Value].
func (m *maxTemperature) String() string {
	switch {
	case m.Off:
		return "off"
	case m.Die == 0:
		return "board"
	}
	return fmt.Sprint(m.Die)
}

// Set implements [pflag.Value].
func (m *maxTemperature) Set(text string) error {
	const most = 150 // no FPGA survives more than this
	switch text {
	case "off":
		*m = maxTemperature{Off: true}
	case "board":
		*m = maxTemperature{}
	default:
		degrees, err := strconv.ParseUint(text, 10, 8)
		if err != nil || degrees == 0 || degrees > most {
			return fmt.Errorf("want 1 to %d, board or off", most)
		}
		*m = maxTemperature{Die: float64(degrees)}
	}
	return nil
}

// Type implements [pflag.Value].
func (*maxTemperature) Type() string { return "limit" }

// deadline returns a context that expires after --timeout.
func (s *settings) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("not done after %s (--timeout)", s.timeout))
}

// addQuiet adds the --quiet flag to a command.
func addQuiet(cmd *cobra.Command, quiet *bool) {
	cmd.Flags().BoolVarP(quiet, "quiet", "q", false, "print only errors")
}

// stdout returns the writer for the command's result, which is discarded if quiet is true.
func stdout(cmd *cobra.Command, quiet bool) io.Writer {
	if quiet {
		return io.Discard
	}
	return cmd.OutOrStdout()
}

// progress shows text and the elapsed time on one terminal line until done is called.
func progress(w io.Writer, show bool, text string) (done func()) {
	if !show {
		return func() {}
	}
	text = terminal.Escape(text)
	begin, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			fmt.Fprintf(w, "\r%s: %.0f s", text, time.Since(begin).Seconds())
			select {
			case <-tick.C:
			case <-stop:
				fmt.Fprint(w, "\r\x1b[K") // clears the line
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// programmedRow is the result of pr in JSON.
type programmedRow struct {
	row
	PCIAddress string `json:"pciAddress"`
	Port       string `json:"port"`
	PortID     int    `json:"portId"`
	Programmed bool   `json:"programmed"` // false if the port already had the AFU or this was a dry run
}

func printProgrammed(w io.Writer, card fpga.Card, port fpga.Port, b *programming.Bitstream, asJSON, there, dryRun bool) error {
	if asJSON {
		r := rowOf(b)
		r.Path = b.Path
		return terminal.WriteJSON(w, programmedRow{r, card.Address, port.Name, port.Number, !there && !dryRun})
	}
	where := fmt.Sprintf("port %d of card %s", port.Number, card.ID())
	text := fmt.Sprintf("programmed %s with %s: AFU %s", where, b.Path, b.AFUID)
	switch {
	case there:
		text = fmt.Sprintf("%s has AFU %s already, nothing changed: --force programs it again", where, b.AFUID)
	case dryRun:
		text = fmt.Sprintf("dry run, nothing changed: would program %s with %s: AFU %s", where, b.Path, b.AFUID)
	}
	_, err := fmt.Fprintln(w, terminal.Escape(text))
	return err
}

func newRelease(s *settings) *cobra.Command {
	return newMove(s, &cobra.Command{
		Use:   "release --device CARD --port N",
		Short: "Release a port, so that a virtual function can use it",
		Long: `Release a port, so that a virtual function can use it. The port disappears from the
physical function and from /dev. To create virtual functions, release one port for
each, and write the number of functions to the card's sriov_numvfs. The command needs
root. It fails if a process has the port open.`,
		Example: `  accelerator-fpga release --device 3b:00.0 --port 1
  echo 1 > /sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs`,
	}, "released", fpga.Programmer.Release)
}

func newAssign(s *settings) *cobra.Command {
	return newMove(s, &cobra.Command{
		Use:   "assign --device CARD --port N",
		Short: "Assign a released port to the physical function",
		Long: `Assign a released port back to the physical function. The command needs root. Remove
the virtual functions first.`,
		Example: `  echo 0 > /sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs
  accelerator-fpga assign --device 3b:00.0 --port 1`,
	}, "assigned", fpga.Programmer.Assign)
}

// movedRow is the result of release or assign in JSON.
type movedRow struct {
	PCIAddress string `json:"pciAddress"`
	PortID     int    `json:"portId"`
	Done       string `json:"done"`  // released or assigned
	Bound      bool   `json:"bound"` // the port is back on the physical function and bound to a driver
}

// newMove turns cmd into a command that releases or assigns a port.
func newMove(s *settings, cmd *cobra.Command, done string, move func(fpga.Programmer, context.Context, fpga.Card, int) error) *cobra.Command {
	var d device
	var quiet bool
	d.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		host, err := s.host()
		if err != nil {
			return asFailure(err)
		}
		card, port, err := fpga.Find(host, d.name)
		switch {
		case err != nil:
			return asFailure(err)
		case port != nil && d.port >= 0 && d.port != port.Number:
			return d.differs(*port)
		case port != nil:
			d.port = port.Number
		case d.port < 0: // released ports aren't listed, so the number is required
			return errors.New("--port: found none, want the number of a port: accelerator-fpga list-port")
		}
		ctx, cancel := s.deadline(cmd.Context())
		defer cancel()
		p := fpga.Programmer{Host: host, LockDir: s.lockDir}
		if err := move(p, ctx, card, d.port); err != nil {
			return asFailure(err)
		}
		// Check whether the port is bound, because Linux 6.1 doesn't bind a driver to an assigned port.
		if now, _, err := fpga.Find(host, card.Address); err == nil {
			card = now
		}
		_, unbound := card.Port(d.port)
		return asFailure(printMoved(stdout(cmd, quiet), card, movedRow{card.Address, d.port, done, unbound == nil}, s.json()))
	}
	d.addPortTo(cmd)
	addQuiet(cmd, &quiet)
	return cmd
}

func printMoved(w io.Writer, card fpga.Card, r movedRow, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, r)
	}
	text := fmt.Sprintf("%s port %d of card %s\n", r.Done, r.PortID, card.ID())
	if r.Done == "assigned" && !r.Bound {
		text += "the port has no driver until the driver of the card is bound again: " + card.Rebind() + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
