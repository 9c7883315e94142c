package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/programming/fpga"
)

// Flags are the flags of this invocation, or of one of the hook's entries in config.json.
type Flags struct {
	Devices []string // names of the cards to program, as in [fpga.Find]; if empty, all cards are programmed
	AFU     string   // the AFU for these cards; if "", the container's environment chooses the AFUs
}

// Hook is a single invocation of the hook. It can't be reused.
type Hook struct {
	Flags
	// Self is the path of this program, with symbolic links resolved.
	Self string
	// Parse parses the arguments of one of the hook's entries in config.json, starting with the program's name.
	Parse func(args []string) (Flags, error)

	// Always means that ports are programmed even if they already report the requested AFU. The ID that a port reports
	// comes from its bitstream, so a pod that was able to program the card may have left a different bitstream with the
	// same ID behind.
	Always bool

	Host    fpga.Host
	Store   programming.Store
	Program func(context.Context, fpga.Card, fpga.Port, *programming.Bitstream) error // see [fpga.Programmer.Program]
	Log     *zap.Logger

	at atomic.Pointer[step]
}

// step is what an invocation is currently doing, for errors and the log.
type step struct {
	about     string // how the error message starts
	container string
	placement // empty until cards have been assigned
	file      string
	began     time.Time // when the invocation started or, for a placement, when work on it started
}

// Run programs the cards of the container whose OCI state is on stdin. If it fails, it logs the error before returning
// it. The error is a single line.
func (h *Hook) Run(ctx context.Context, stdin io.Reader) error {
	h.enter(step{about: "OCI state on stdin", began: time.Now()})
	done := make(chan error, 1)
	go func() { done <- h.run(ctx, stdin) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		// Give run a moment to return its own error, which includes the cause. Don't wait any longer, because a blocked
		// read doesn't end when ctx is done.
		select {
		case err = <-done:
		case <-time.After(time.Second):
			err = fmt.Errorf("no answer: %w", context.Cause(ctx))
		}
	}
	if err == nil {
		return nil
	}
	at := h.at.Load()
	device := at.device
	if device == "" && len(h.Devices) == 1 {
		device = strings.TrimSuffix(h.Devices[0], "-p0") // port 0 has the same ID as its card
	}
	err = errors.New(terminal.Escape(at.about + ": " + err.Error()))
	h.Log.Error("programming failed", logevent.ProgrammingFailed, logevent.Err(err), logevent.Lasted(time.Since(at.began)), logevent.Container(at.container),
		logevent.Device(device), logevent.AFU(at.afu), logevent.Interface(at.interfaceID), logevent.Path(at.file))
	return err
}

// run implements [Hook.Run].
func (h *Hook) run(ctx context.Context, stdin io.Reader) error {
	state, err := readState(stdin)
	if err != nil {
		return err
	}
	at := *h.at.Load()
	at.container = state.ID

	at.about = "config.json"
	h.enter(at)
	config, err := readConfig(filepath.Join(state.Bundle, "config.json"))
	var pairs []pair
	names := h.Devices
	if h.AFU == "" { // with --afu, config.json is optional
		if err != nil {
			return err
		}
		if pairs, err = config.pairs(); err != nil {
			return err
		}
		if names, err = h.given(config); err != nil {
			return err
		}
	}
	nodes, _ := config.ports() // the container's device nodes for ports; nil if unknown

	at.about = "cards of the container"
	h.enter(at)
	cards, own, err := h.find(names)
	if err != nil {
		return err
	}
	var placements []placement
	if h.AFU != "" {
		at.about = "--afu"
		h.enter(at)
		placements, err = h.named()
	} else {
		placements, err = assign(pairs, cards)
	}
	if err != nil {
		return err
	}

	for _, p := range placements {
		if !own[p.card.Address] {
			continue // another entry programs this card
		}
		at.about, at.placement, at.began = p.name, p, time.Now()
		h.enter(at)
		if err := h.program(ctx, at, nodes); err != nil {
			return err
		}
	}
	return nil
}

// program programs a placement's port, unless the port already has the AFU and Always is false. nodes lists the
// container's device nodes for ports.
func (h *Hook) program(ctx context.Context, at step, nodes []string) error {
	p := at.placement
	// Check that the container has the port. Once a card is gone, the kernel reuses its ports' numbers for other cards,
	// so if the daemon wasn't running at the time, the CDI spec may be outdated and give the container another pod's
	// port.
	if nodes != nil && !slices.ContainsFunc(nodes, func(node string) bool { return filepath.Base(node) == p.port.Name }) {
		return fmt.Errorf("card %s: the CDI spec is outdated, so the container has %s instead of %s: check that the device plugin, or the DRA driver, runs",
			p.card.ID(), strings.Join(nodes, ", "), p.port.Name)
	}
	loaded := p.loaded && !h.Always
	if !loaded {
		b, err := h.Store.Lookup(p.interfaceID, p.afu) // Lookup also checks the interface in the file
		if err != nil {
			return fmt.Errorf("card %s: %w", p.card.ID(), err)
		}
		at.file = b.Path
		h.enter(at)
		err = h.Program(ctx, p.card, p.port, b)
		b.Close()
		if loaded = errors.Is(err, fpga.ErrLoaded); err != nil && !loaded {
			return err
		}
	}
	fields := []zap.Field{logevent.Device(p.device), logevent.AFU(p.afu), logevent.Interface(p.interfaceID),
		logevent.Lasted(time.Since(at.began)), logevent.Container(at.container)}
	if loaded {
		h.Log.Info("AFU already loaded", append(fields, logevent.ProgrammingPresent)...)
	} else {
		h.Log.Info("card programmed", append(fields, logevent.ProgrammingDone, logevent.Path(at.file))...)
	}
	return nil
}

func (h *Hook) enter(at step) { h.at.Store(&at) }

// given returns the names of the cards allocated to the container.
func (h *Hook) given(c config) ([]string, error) {
	var names []string
	for i, entry := range c.Hooks.CreateRuntime {
		if !h.isSelf(entry.Path) {
			continue
		}
		flags, err := h.Parse(entry.Args)
		if err != nil {
			return nil, fmt.Errorf("hooks.createRuntime[%d].args: %w", i, err)
		}
		if flags.AFU == "" { // cards in an entry with --afu don't get a pair
			names = append(names, flags.Devices...)
		}
	}
	// If config.json uses a different path for this program, isSelf doesn't recognize the hook's entries, so add this
	// invocation's own devices.
	if names = append(names, h.Devices...); len(names) > 0 {
		return names, nil
	}
	return c.ports()
}

// isSelf reports whether path leads to this program. It compares paths rather than files, because after an upgrade the
// file at the path isn't the one that this process is running.
func (h *Hook) isSelf(path string) bool {
	if filepath.IsAbs(path) && path != h.Self {
		path, _ = filepath.EvalSymlinks(path)
	}
	return path == h.Self
}

// named returns the placements for --afu, one per --device. Several of them can be for ports of the same card.
func (h *Hook) named() ([]placement, error) {
	afu, err := parseAFU(h.AFU)
	if err != nil {
		return nil, err
	}
	var all []placement
	for _, name := range h.Devices {
		cards, _, err := h.find([]string{name})
		if err != nil {
			return nil, err
		}
		p := placement{pair: pair{"--afu", cards[0].InterfaceID, afu}, card: cards[0]}
		p.port, p.loaded = choosePort(p.card, p.pair)
		p.device = p.card.ID()
		if strings.Contains(name, p.device+"-p") && p.port.Number != 0 {
			p.device = fmt.Sprintf("%s-p%d", p.device, p.port.Number)
		}
		if !slices.ContainsFunc(all, func(o placement) bool { return o.card.Address == p.card.Address && o.port.Number == p.port.Number }) {
			all = append(all, p)
		}
	}
	return all, nil
}

// find returns the named cards in the order of names, without duplicates. Each card contains only the ports that the
// names select. own holds the addresses of the cards that this invocation programs.
func (h *Hook) find(names []string) (cards []fpga.Card, own map[string]bool, err error) {
	own = map[string]bool{}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		card, port, err := fpga.Find(h.Host, name)
		if err != nil {
			return nil, nil, err
		}
		if card.InterfaceErr != nil {
			return nil, nil, fmt.Errorf("card %s: interface id: %w", card.ID(), card.InterfaceErr)
		}
		if port != nil {
			card.Ports = []fpga.Port{*port}
		}
		card.Ports = slices.DeleteFunc(card.Ports, func(p fpga.Port) bool { return p.Number < 0 })
		if len(card.Ports) == 0 {
			return nil, nil, fmt.Errorf("card %s has no port with a driver", card.ID())
		}
		if len(h.Devices) == 0 || slices.Contains(h.Devices, name) {
			own[card.Address] = true
		}
		at := slices.IndexFunc(cards, func(c fpga.Card) bool { return c.Address == card.Address })
		if at < 0 {
			cards = append(cards, card)
			continue
		}
		ports := append(cards[at].Ports, card.Ports...)
		slices.SortStableFunc(ports, func(a, b fpga.Port) int { return cmp.Compare(a.Number, b.Number) })
		cards[at].Ports = slices.CompactFunc(ports, func(a, b fpga.Port) bool { return a.Number == b.Number })
	}
	return cards, own, nil
}
