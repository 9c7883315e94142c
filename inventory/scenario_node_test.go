package inventory_test

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/must"
)

// programming is the dfl family on a node where ports can be in the process of being programmed, so that their afu_id
// fails with EBUSY. A regular file can't return that error, so Read changes what was read from such a port the way
// inventory/port would (takeAFU), based on its health table.
type programming struct {
	port.Layout
	*busyPorts
}

// busyPorts contains the ports that are being programmed.
type busyPorts struct {
	row inventory.Row

	mu    sync.Mutex
	ports map[portOfCard]bool
	file  string                   // contains ports as text, for observations
	hangs map[string]chan struct{} // readings of a card hang until its channel is closed
}

func newProgramming(t *testing.T) *programming {
	rows := dfl.Family(port.PerPort).Rows()
	i := slices.IndexFunc(rows, func(row inventory.Row) bool { return row.Name == "reprogramming" })
	f := &programming{Layout: dfl.Family(port.PerPort), busyPorts: &busyPorts{row: rows[i], ports: map[portOfCard]bool{}, hangs: map[string]chan struct{}{}, file: filepath.Join(t.TempDir(), "busy")}}
	must.Succeed(t, f.write())
	return f
}

func (f *busyPorts) write() error { return os.WriteFile(f.file, []byte(fmt.Sprint(f.ports)), 0o600) }

type portOfCard struct {
	card string
	port int
}

func (f *programming) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	f.mu.Lock()
	hang := f.hangs[card]
	f.mu.Unlock()
	if hang != nil {
		<-hang
	}
	r, err := f.Layout.Read(host, card)
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Observed = append(r.Observed, sysfs.ObserveValue(f.file, fmt.Sprint(f.ports)))
	for i := range r.Units {
		p := &r.Units[i]
		if f.ports[portOfCard{card, p.PortID}] {
			p.AFUID, p.AFUIDKnown = "", false
			p.Conditions = slices.Concat(p.Conditions, []inventory.Condition{
				{Reason: f.row.Name, Row: f.row.Name, Health: f.row.Health, Passing: true},
			})
		}
	}
	return r, err
}

func (s *scenario) hang(st scenarioStep) error {
	s.family.mu.Lock()
	defer s.family.mu.Unlock()
	s.family.hangs[st.card] = make(chan struct{})
	return nil
}

// answer releases a card's hanging readings.
func (s *scenario) answer(st scenarioStep) error {
	s.family.mu.Lock()
	defer s.family.mu.Unlock()
	if s.family.hangs[st.card] == nil {
		return errors.New("the card does not hang")
	}
	close(s.family.hangs[st.card])
	delete(s.family.hangs, st.card)
	return nil
}

func (s *scenario) busy(st scenarioStep) error {
	if s.family.Kind != port.PerPort && st.port != 0 {
		return fmt.Errorf("found p%d, want p0: a region is busy as a whole", st.port)
	}
	s.family.mu.Lock()
	defer s.family.mu.Unlock()
	s.family.ports[portOfCard{st.card, st.port}] = st.rest[0] == "on"
	return s.family.write()
}

// names contains short names that scenarios use for long values.
var names = map[string]string{
	"afu1": afu1, "afu2": afu2, "interface1": "69528db6eb31577a8c3668f9faa081f6", "interface2": "9346116da52d5ca8b06aa9a389ef7c8d",
	"all-ones": strings.Repeat("f", 32),
	"n6001-vf": "8086:bccf:8086:1771", "n6000-vf": "8086:bccf:8086:1770",
	"cleared": "1d0f:9048:1d0f:1d51", "image1": "1d0f:f010:1d0f:1d51", "image2": "10ee:7011:10ee:0007",
	"a10": "8086:09c4:8086:0000", "n3000": "8086:0b30:8086:0000",
}

// inFull returns the long value for a name, or the word itself if it isn't a name.
func inFull(word string) string {
	if full, ok := names[word]; ok {
		return full
	}
	return word
}

// inShort returns the name for a long value, or the value itself if it doesn't have a name.
func inShort(value string) string {
	for name, full := range names {
		if full == value {
			return name
		}
	}
	return value
}

func (s *scenario) plug(st scenarioStep) error {
	card := simnode.Card{Address: st.card, NUMANode: -1, AFUID: afu1, InterfaceID: names["interface1"]}
	for _, word := range st.rest {
		option, value, _ := strings.Cut(word, "=")
		var err error
		switch value = inFull(value); option {
		case "ports":
			card.Ports, err = strconv.Atoi(value)
		case "afu":
			card.AFUID = value
		case "interface":
			card.InterfaceID = value
		case "pci":
			card.PCIID = value
		case "vf-of":
			card.PhysFn, err = parseCard(value)
		case "driver":
			card.Group, card.Driver = cmp.Or(card.Group, simnode.OwnGroup), driverOf(value)
		case "group":
			card.Group = value
		case "vbnv":
			card.VBNV = value
		case "slot":
			card.Slot = value
		default:
			err = fmt.Errorf("found option %q, want ports, afu, interface, pci, vf-of, driver, group, vbnv or slot", option)
		}
		if err != nil {
			return err
		}
	}
	if err := card.Check(); err != nil {
		return err
	}
	if err := s.node.Plug(card); err != nil {
		return err
	}
	s.plugged[st.card] = card.Ports
	if card.Group != "" || card.Slot != "" {
		s.plugged[st.card] = 1 // one device node, or one unit
	}
	return nil
}

// driverOf returns a driver's name, or "" for none.
func driverOf(word string) string {
	if word == "none" {
		return ""
	}
	return word
}

func (s *scenario) setDriver(st scenarioStep) error {
	return s.node.SetDriver(st.card, driverOf(st.rest[0]))
}

// reset begins or ends an XRT card's reset.
func (s *scenario) reset(st scenarioStep) error {
	switch {
	case len(st.rest) == 1 && st.rest[0] == "begin":
		return s.node.BeginReset(st.card)
	case st.rest[0] == "end" && len(st.rest) <= 2:
		return s.node.EndReset(st.card, strings.Join(st.rest[1:], ""))
	}
	return fmt.Errorf("found %q, want begin, end or end VBNV", st.rest)
}

func (s *scenario) endUse(st scenarioStep) error {
	err := s.node.EndUse(st.card)
	if err == nil && s.rig != nil {
		s.rig.hint(st.card)
	}
	return err
}

func (s *scenario) unplug(st scenarioStep) error {
	delete(s.plugged, st.card)
	return s.node.Unplug(st.card)
}

func (s *scenario) editNode(st scenarioStep) error {
	if st.rest[0] == "rm" {
		return os.Remove(s.nodeOf(st))
	}
	return os.WriteFile(s.nodeOf(st), nil, 0o600)
}

func (s *scenario) nodeOf(st scenarioStep) string {
	if name, ok := s.node.RenderNode(st.card); ok {
		return filepath.Join(s.node.Dev, name)
	}
	if name, ok := s.node.GroupNode(st.card); ok {
		return filepath.Join(s.node.Dev, name)
	}
	return filepath.Join(s.node.Dev, s.node.PortNode(st.card, st.port))
}

// set writes health files, using their names in docs/health.md. Every card's slot is the root port. The value of an AER
// file is the number of errors, and the value of config is its first bytes in hexadecimal.
func (s *scenario) set(st scenarioStep) error {
	for one := range strings.SplitSeq(strings.Join(st.rest, " "), " ; ") {
		name, value, _ := strings.Cut(one, " ")
		if err := s.setFile(st.card, name, inFull(value)); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) setFile(card, name, value string) error {
	_, file, _ := strings.Cut(name, "/")
	if severity, ok := strings.CutPrefix(file, "aer_dev_"); ok {
		errs, err := strconv.ParseUint(value, 0, 64)
		if err != nil {
			return err
		}
		value = simnode.AER(strings.ToUpper(severity), errs)
	}
	path, err := s.path(card, name)
	if err != nil {
		return err
	}
	if file == "config" {
		raw, err := hex.DecodeString(value)
		return errors.Join(err, s.node.SetFile(path, string(raw)))
	}
	return s.node.SetFile(path, value+"\n")
}

// hide removes files, and show restores them.
func (s *scenario) hide(st scenarioStep) error { return s.move(st, "", ".hidden") }
func (s *scenario) show(st scenarioStep) error { return s.move(st, ".hidden", "") }

func (s *scenario) move(st scenarioStep, from, to string) error {
	for _, name := range st.rest {
		path, err := s.path(st.card, name)
		if err = cmp.Or(err, os.Rename(path+from, path+to)); err != nil {
			return err
		}
	}
	return nil
}

// path returns the path of a card's file, given the name that set uses.
func (s *scenario) path(card, name string) (string, error) {
	part, file, _ := strings.Cut(name, "/")
	switch part {
	case "pci":
		return filepath.Join(s.node.CardDir(card), file), nil
	case "slot", "root":
		return filepath.Join(filepath.Dir(s.node.CardDir(card)), file), nil
	case "fme":
		pattern := file
		if file == "manager" {
			pattern = "dfl-fme-mgr.*/fpga_manager/*/state"
		} else if alarm, ok := strings.CutPrefix(file, "hwmon/"); ok {
			pattern = "hwmon/*/" + alarm
		}
		path := filepath.Join(s.node.FMEDir(card), pattern)
		if pattern == file {
			return path, nil
		}
		found, err := filepath.Glob(path)
		if len(found) != 1 {
			return "", errors.Join(err, fmt.Errorf("%s: found %d files, want one", path, len(found)))
		}
		return found[0], nil
	}
	port, err := parsePort(part)
	if err == nil && port >= s.plugged[card] {
		err = fmt.Errorf("slot %s has no port %d", card, port)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(s.node.PortDir(card, port), file), nil
}
