package inventory_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/pool"
	"b-com.com/accelerator-device-plugin/inventory/port"
)

// scenarioCommands is the language of the scenarios.
var scenarioCommands = map[string]scenarioCommand{
	"config":  {settles, "SETTING VALUE", (*stage).configure}, // before start; the names of the flags
	"start":   {settles, "", (*stage).start},
	"restart": {news, "[MODE]", (*stage).restart}, // restarts the daemon, which has no state of its own
	"wait":    {acts, "DURATION", (*stage).wait},

	"plug":      {edits, "ADDRESS ports=N [OPTION=VALUE…]", (*stage).plug}, // afu= interface= pci= vf-of=
	"unplug":    {edits, "ADDRESS", (*stage).unplug},
	"bind":      {edits, "ADDRESS pN", func(s *stage, st scenarioStep) error { return s.node.Bind(st.card, st.port) }},
	"unbind":    {edits, "ADDRESS pN", func(s *stage, st scenarioStep) error { return s.node.Unbind(st.card, st.port) }},
	"release":   {edits, "ADDRESS pN", func(s *stage, st scenarioStep) error { return s.node.Release(st.card, st.port) }}, // the port, from its card, for a virtual function
	"assign":    {edits, "ADDRESS pN", func(s *stage, st scenarioStep) error { return s.node.Assign(st.card, st.port) }},  // it back: the kernel does not bind it then
	"node":      {edits, "ADDRESS pN rm|make", (*stage).editNode},
	"set":       {edits, "ADDRESS FILE VALUE…", (*stage).set}, // FILE as in docs/health.md, with p0/ to p3/ before a port's
	"hide":      {edits, "ADDRESS FILE", (*stage).hide},
	"show":      {edits, "ADDRESS FILE", (*stage).show},
	"reprogram": {edits, "ADDRESS pN AFU", func(s *stage, st scenarioStep) error { return s.node.Reprogram(st.card, st.port, inFull(st.rest[0])) }},
	"busy":      {edits, "ADDRESS pN on|off", (*stage).busy}, // its afu_id fails with EBUSY

	"hang":   {acts, "ADDRESS", (*stage).hang},    // readings of the card
	"answer": {edits, "ADDRESS", (*stage).answer}, // ends the hanging readings

	"hint":    {news, "ADDRESS|all", (*stage).hint},
	"gave-up": {news, "ADDRESS", (*stage).gaveUp}, // uevent ERROR_EVENT=FAILED_RECOVERY

	"hold":          {acts, "ID POD…", (*stage).hold},      // under the name that it is offered under
	"hold-as":       {acts, "NAME ID POD…", (*stage).hold}, // under this name
	"free":          {acts, "ID", func(s *stage, st scenarioStep) error { s.desk.free(st.rest[0]); return nil }},
	"unknown-nodes": {acts, "ID", (*stage).unknownNodes},                          // those that its holders were given
	"holders":       {acts, "ok|slow|stall|empty|fail [WORD…]", (*stage).holders}, // the form of the next answers about holders
	"mode":          {acts, "MODE", (*stage).changeMode},                          // while the daemon runs
	"exclude":       {acts, "[ID…]", (*stage).exclude},                            // these, and no others
	"cordon":        {acts, "[ID…]", (*stage).cordon},                             // these, and no others
	"severity":      {acts, "[ROW=SEVERITY…]", (*stage).severity},                 // these, and no others
	"rules":         {acts, "[AFU=NAME…]", (*stage).rules},                        // these, and no others

	"expect": {looks, "ID healthy|degraded|unhealthy|gone|ATTRIBUTE=VALUE [REASON…]", (*stage).expect},
	"list":   {looks, "[ID…]", (*stage).list},                    // the whole list
	"log":    {looks, "EVENT [FIELD=VALUE…]", (*stage).logged},   // the last command has logged such a line
	"no-log": {looks, "EVENT [FIELD=VALUE…]", (*stage).unlogged}, // no such line yet, except those that `log` has named
}

// configure sets a setting of the daemon, by the name of its flag.
func (s *stage) configure(st scenarioStep) error {
	value := st.rest[1]
	if st.rest[0] == "flap-limit" {
		_, err := fmt.Sscan(value, &s.cfg.FlapLimit)
		return err
	}
	if st.rest[0] == "any-afu" {
		s.policy.AnyAFU = value == "on"
		return nil
	}
	if st.rest[0] == "mode" {
		return s.setMode(value)
	}
	d, err := time.ParseDuration(value)
	times := map[string]*time.Duration{
		"resync-interval": &s.cfg.ResyncInterval, "health-interval": &s.cfg.HealthInterval, "recovery-hold": &s.cfg.RecoveryHold,
		"reprogram-timeout": &s.cfg.ReprogramTimeout, "flap-window": &s.cfg.FlapWindow, "tombstone-grace": &s.cfg.TombstoneGrace,
	}
	setting := times[st.rest[0]]
	if setting == nil {
		return fmt.Errorf("unknown setting %q, want any-afu, flap-limit, mode or one of %v", st.rest[0], slices.Sorted(maps.Keys(times)))
	}
	*setting = d
	return err
}

// setMode selects the kind of unit: regions, with any AFU, ports, or two units of a pool.
func (s *stage) setMode(mode string) error {
	families, anyAFU := []inventory.Family{pool.Pool{Units: 2}}, false
	if mode != "pool" {
		unit, ok := map[string]port.Kind{
			"single": port.PerPort, "af": port.PerPort, "region": port.PerFME, "regiondevel": port.PerFMEWithNode,
		}[mode]
		if !ok {
			return fmt.Errorf("unknown mode %q, want single, af, region, regiondevel or pool", mode)
		}
		if unit != s.family.Kind {
			s.family = &programming{dfl.Family{Kind: unit}, s.family.busyPorts}
		}
		families, anyAFU = []inventory.Family{s.family}, unit != port.PerPort
	}
	s.policy.Mode, s.policy.Families, s.policy.AnyAFU = mode, families, anyAFU
	s.policy.Name = func(d *inventory.Device) (string, error) { return s.nameOf(mode, d) }
	s.mode = mode
	return nil
}

// changeMode changes the mode while the daemon runs.
func (s *stage) changeMode(st scenarioStep) error {
	err := s.setMode(st.rest[0])
	s.usePolicy()
	return err
}

// nameOf returns the name of a device, in short: af-afu1, region-interface1. Rules for AFUs come
// first.
func (s *stage) nameOf(mode string, d *inventory.Device) (string, error) {
	afu, iface := inShort(d.AFUID), inShort(d.InterfaceID)
	switch name := s.ruled.Load().(map[string]string)[afu]; {
	case name != "":
		return name, nil
	case mode == "single", mode == "pool":
		return mode, nil
	case mode != "af" && iface != "":
		return "region-" + iface, nil
	case mode == "af" && afu != "":
		return "af-" + afu, nil
	}
	return "", errors.New("what mode " + mode + " names it by is not known")
}

func (s *stage) rules(st scenarioStep) error {
	named := map[string]string{}
	for _, word := range st.rest {
		afu, name, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("%q is no rule, want AFU=NAME", word)
		}
		named[afu] = name
	}
	s.ruled.Store(named)
	s.usePolicy()
	return nil
}

// hold makes pods hold a device: as NAME, or under the name that it is offered under.
func (s *stage) hold(st scenarioStep) error {
	name, rest := "b.com/fpga", st.rest
	if st.name == "hold-as" {
		name, rest = rest[0], rest[1:]
	} else if s.mode != "" && s.rig != nil {
		snapshot, _ := s.rig.Latest()
		d := snapshot.Device(rest[0])
		if d == nil || d.OfferedAs == "" {
			return fmt.Errorf("%s is not offered", rest[0])
		}
		name = d.OfferedAs
	}
	s.desk.give(name, rest[0], s.nodesOf(rest[0]), rest[1:]...)
	return nil
}

// nodesOf returns the names and numbers of the nodes that a pod would be given with a device now.
func (s *stage) nodesOf(id string) []string {
	if s.rig != nil {
		snapshot, _ := s.rig.Latest()
		if d := snapshot.Device(id); d != nil {
			return slices.Concat(d.Nodes, d.NodeNumbers)
		}
	}
	return nil
}

// unknownNodes makes the nodes that the holders of a device were given unknown.
func (s *stage) unknownNodes(st scenarioStep) error {
	s.desk.forgetNodes(st.rest[0], errors.New("checkpoint: permission denied"))
	return nil
}

func (s *stage) wait(st scenarioStep) error {
	d, err := time.ParseDuration(st.rest[0])
	time.Sleep(d) // in the bubble
	return err
}

// hint sends the hint that silent edits lack.
func (s *stage) hint(st scenarioStep) error {
	card := ""
	if st.rest[0] != "all" {
		var err error
		if card, err = parseCard(st.rest[0]); err != nil {
			return err
		}
	}
	s.rig.hint(card)
	return nil
}

func (s *stage) gaveUp(st scenarioStep) error {
	s.rig.Hint(inventory.Hint{Card: st.card, Source: "test", At: time.Now(), RecoveryFailed: true})
	return nil
}

func (s *stage) holders(st scenarioStep) error {
	how, rest := st.rest[0], strings.Join(st.rest[1:], " ")
	var takes time.Duration
	var err error
	switch {
	case how == "slow":
		takes, err = time.ParseDuration(rest)
	case (how == "ok" || how == "stall" || how == "empty") && rest == "", how == "fail" && rest != "":
	default:
		err = errors.New("want ok, stall, empty, slow and how long it takes, or fail and why")
	}
	if how != "fail" {
		rest = ""
	}
	s.desk.fail(rest)
	s.desk.set(func() { s.desk.stall, s.desk.empty, s.desk.takes = how == "stall", how == "empty", takes })
	return err
}

func (s *stage) exclude(st scenarioStep) error {
	return s.takeOut(inventory.ReasonExcluded, st.rest)
}

func (s *stage) cordon(st scenarioStep) error {
	return s.takeOut(inventory.ReasonCordoned, st.rest)
}

// takeOut replaces the entries with this reason.
func (s *stage) takeOut(reason string, ids []string) error {
	all := map[string]string{}
	for id, r := range s.policy.Exclude {
		if r != reason {
			all[id] = r
		}
	}
	for _, id := range ids {
		all[id] = reason
	}
	s.policy.Exclude = all
	s.usePolicy()
	return nil
}

func (s *stage) severity(st scenarioStep) error {
	words := map[string]inventory.Health{"ignored": inventory.Healthy, "degraded": inventory.Degraded, "fatal": inventory.Unhealthy}
	s.policy.Severity = map[string]inventory.Health{}
	for _, word := range st.rest {
		i := strings.LastIndex(word, "=") // a row may have a value, too
		health, ok := words[word[i+1:]]
		if i < 0 || !ok {
			return fmt.Errorf("%q is no severity, want ROW=fatal, =degraded or =ignored", word)
		}
		s.policy.Severity[word[:i]] = health
	}
	s.usePolicy()
	return nil
}
