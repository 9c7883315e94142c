package inventory_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/aws"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/pool"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/inventory/vfio"
	"b-com.com/accelerator-device-plugin/inventory/xrt"
)

// scenarioCommands is the language of the scenarios.
var scenarioCommands = map[string]scenarioCommand{
	"config":  {setup, "SETTING VALUE", (*scenario).configure}, // before start; SETTING is a flag name
	"start":   {setup, "", (*scenario).start},
	"restart": {daemonAction, "[MODE]", (*scenario).restart}, // restarts the daemon, which doesn't store any state
	"wait":    {action, "DURATION", (*scenario).wait},

	// plug's slot= option adds a function of an AWS card, either application or management. The other options are afu=,
	// interface=, pci= and vf-of=. With driver=, there is also group=slot, which makes the slot's functions share an IOMMU
	// group.
	"plug":   {edit, "ADDRESS ports=N|driver=NAME|slot=KIND [OPTION=VALUE…]", (*scenario).plug},
	"unplug": {edit, "ADDRESS", (*scenario).unplug},
	"remove": {edit, "ADDRESS", func(s *scenario, st scenarioStep) error { return s.node.Remove(st.card) }}, // removes a function of an AWS card through sysfs
	"rescan": {edit, "ADDRESS [PCI]", func(s *scenario, st scenarioStep) error {
		return s.node.Rescan(st.card, inFull(strings.Join(st.rest, "")))
	}}, // rediscovers the function, with the loaded image's IDs
	"driver":  {edit, "ADDRESS NAME|none", (*scenario).setDriver},                                           // for a function with an IOMMU group
	"use":     {action, "ADDRESS", func(s *scenario, st scenarioStep) error { return s.node.Use(st.card) }}, // a process opens the function's IOMMU group
	"reset":   {edit, "ADDRESS begin|end [VBNV]", (*scenario).reset},                                        // for a function on xocl, which can have a different shell at the end
	"end-use": {action, "ADDRESS", (*scenario).endUse},                                                      // the process exits; a function that was about to be removed is then removed, with a hint
	"bind":    {edit, "ADDRESS pN", func(s *scenario, st scenarioStep) error { return s.node.Bind(st.card, st.port) }},
	"unbind":  {edit, "ADDRESS pN", func(s *scenario, st scenarioStep) error { return s.node.Unbind(st.card, st.port) }},
	"release": {edit, "ADDRESS pN", func(s *scenario, st scenarioStep) error { return s.node.Release(st.card, st.port) }}, // releases the port from its card, for a virtual function
	"assign":  {edit, "ADDRESS pN", func(s *scenario, st scenarioStep) error { return s.node.Assign(st.card, st.port) }},  // assigns the port to its card again; the kernel doesn't bind it
	"node":    {edit, "ADDRESS pN rm|make", (*scenario).editNode},                                                         // for a function with an IOMMU group: p0
	"set":     {edit, "ADDRESS FILE VALUE… [;…]", (*scenario).set},                                                        // FILE is as in docs/health.md, with p0/ to p3/ in front of a port's files
	"hide":    {edit, "ADDRESS FILE…", (*scenario).hide},
	"show":    {edit, "ADDRESS FILE…", (*scenario).show},
	"reprogram": {edit, "ADDRESS pN AFU", func(s *scenario, st scenarioStep) error {
		return s.node.Reprogram(st.card, st.port, inFull(st.rest[0]))
	}},
	"busy": {edit, "ADDRESS pN on|off", (*scenario).busy}, // whether afu_id fails with EBUSY

	"hang":   {action, "ADDRESS", (*scenario).hang}, // new readings of the card hang
	"answer": {edit, "ADDRESS", (*scenario).answer}, // releases the hanging readings

	"hint":    {daemonAction, "ADDRESS|all", (*scenario).hint},
	"gave-up": {daemonAction, "ADDRESS", (*scenario).gaveUp}, // uevent ERROR_EVENT=FAILED_RECOVERY

	"hold":          {action, "ID POD…", (*scenario).hold},      // holds the device under its resource name
	"hold-as":       {action, "NAME ID POD…", (*scenario).hold}, // holds the device under this name; dra: through the other API, where the nodes are unknown
	"free":          {action, "ID", func(s *scenario, st scenarioStep) error { s.kubelet.free(st.rest[0]); return nil }},
	"unknown-nodes": {action, "ID", (*scenario).unknownNodes},                    // hides which nodes the holders were given
	"holders":       {action, "ok|slow|stall|fail [WORD…]", (*scenario).holders}, // how questions about holders are answered from now on
	"mode":          {action, "MODE", (*scenario).changeMode},                    // while the daemon is running
	"exclude":       {action, "[ID…]", (*scenario).exclude},                      // replaces all earlier ones
	"cordon":        {action, "[ID…]", (*scenario).cordon},                       // replaces all earlier ones
	"severity":      {action, "[ROW=SEVERITY…]", (*scenario).severity},           // replaces all earlier ones
	"rules":         {action, "[AFU|FAMILY|ID=NAME…]", (*scenario).rules},        // replaces all earlier ones

	"expect": {check, "ID[,ID…] ATTRIBUTE=VALUE…|healthy|degraded|unhealthy|gone [REASON…]", (*scenario).expect},
	"list":   {check, "[ID…]", (*scenario).list},                    // the whole list
	"log":    {check, "EVENT [FIELD=VALUE…]", (*scenario).logged},   // the last command has logged such a line
	"no-log": {check, "EVENT [FIELD=VALUE…]", (*scenario).unlogged}, // no command has logged such a line, other than lines that a `log` check has matched
}

// configure changes one of the daemon's settings, given its flag name.
func (s *scenario) configure(st scenarioStep) error {
	value := st.rest[1]
	if st.rest[0] == "flap-limit" {
		_, err := fmt.Sscan(value, &s.cfg.FlapLimit)
		return err
	}
	if st.rest[0] == "other-api" {
		s.cfg.HoldersUnknown = value == "on"
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
		return fmt.Errorf("found setting %q, want flap-limit, mode, other-api or one of %v", st.rest[0], slices.Sorted(maps.Keys(times)))
	}
	*setting = d
	return err
}

// setMode selects the kind of unit: regions (with any AFU), ports, or two units of a pool.
func (s *scenario) setMode(mode string) error {
	families, anyAFU := []inventory.Family{pool.Pool{Units: 2}}, false
	if mode != "pool" {
		unit, ok := map[string]port.Kind{
			"single": port.PerPort, "af": port.PerPort, "region": port.PerFME, "regiondevel": port.PerFMEWithNode,
		}[mode]
		if !ok {
			return fmt.Errorf("found mode %q, want single, af, region, regiondevel or pool", mode)
		}
		if unit != s.family.Kind {
			s.family = &programming{dfl.Family(unit), s.family.busyPorts}
		}
		families, anyAFU = []inventory.Family{s.family, vfio.Family{}, xrt.Family{}, aws.Family{}}, unit != port.PerPort
	}
	s.policy.Mode, s.policy.Families, s.policy.AnyAFU = mode, families, anyAFU
	s.policy.Name = func(d *inventory.Device) (string, error) { return s.nameOf(mode, d) }
	s.mode = mode
	return nil
}

func (s *scenario) changeMode(st scenarioStep) error {
	err := s.setMode(st.rest[0])
	s.usePolicy()
	return err
}

// nameOf returns a device's short name: af-afu1, region-interface1. Rules take precedence.
func (s *scenario) nameOf(mode string, d *inventory.Device) (string, error) {
	afu, iface := inShort(d.AFUID), inShort(d.InterfaceID)
	rules := s.ruled.Load().(map[string]string)
	switch name := cmp.Or(rules[d.ID], rules[d.Family], rules[afu]); {
	case name != "":
		return name, nil
	case d.OnlyByRule, d.NamedByShell && mode == "pool":
		return "", nil
	case d.NamedByShell && d.Attributes["vbnv"] != "":
		return d.Attributes["vbnv"], nil
	case d.NamedByShell:
		return "", errors.New("found no VBNV for a name")
	case mode == "single", mode == "pool":
		return mode, nil
	case mode != "af" && iface != "":
		return "region-" + iface, nil
	case mode == "af" && afu != "":
		return "af-" + afu, nil
	}
	return "", errors.New("mode " + mode + ": found no id for a name")
}

func (s *scenario) rules(st scenarioStep) error {
	named := map[string]string{}
	for _, word := range st.rest {
		afu, name, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("found %q, want AFU=NAME, FAMILY=NAME or ID=NAME", word)
		}
		named[afu] = name
	}
	s.ruled.Store(named)
	s.usePolicy()
	return nil
}

// hold makes pods hold a device under NAME, or under its resource name.
func (s *scenario) hold(st scenarioStep) error {
	name, rest := "b.com/fpga", st.rest
	if st.name == "hold-as" {
		name, rest = rest[0], rest[1:]
	} else if s.mode != "" && s.rig != nil {
		snapshot, _ := s.rig.Latest()
		d := snapshot.Device(rest[0])
		if d == nil || d.OfferedAs == "" {
			return fmt.Errorf("%s: device is not offered", rest[0])
		}
		name = d.OfferedAs
	}
	s.kubelet.give(name, rest[0], s.nodesOf(rest[0]), rest[1:]...)
	return nil
}

// nodesOf returns the names and numbers of a device's current nodes.
func (s *scenario) nodesOf(id string) []string {
	if s.rig != nil {
		snapshot, _ := s.rig.Latest()
		if d := snapshot.Device(id); d != nil {
			return slices.Concat(d.Nodes, d.NodeNumbers)
		}
	}
	return nil
}

// unknownNodes hides which nodes a device's holders were given.
func (s *scenario) unknownNodes(st scenarioStep) error {
	s.kubelet.setNodesErr(st.rest[0], errors.New("checkpoint: permission denied"))
	return nil
}

func (s *scenario) wait(st scenarioStep) error {
	d, err := time.ParseDuration(st.rest[0])
	time.Sleep(d) // fake time
	return err
}

// hint sends a hint, for edits that were made silently.
func (s *scenario) hint(st scenarioStep) error {
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

func (s *scenario) gaveUp(st scenarioStep) error {
	s.rig.Hint(inventory.Hint{Card: st.card, Source: "test", At: time.Now(), RecoveryFailed: true})
	return nil
}

func (s *scenario) holders(st scenarioStep) error {
	how, rest := st.rest[0], strings.Join(st.rest[1:], " ")
	var takes time.Duration
	var err error
	switch {
	case how == "slow":
		takes, err = time.ParseDuration(rest)
	case (how == "ok" || how == "stall") && rest == "", how == "fail" && rest != "":
	default:
		err = fmt.Errorf("found %q, want ok, stall, slow DURATION or fail ERROR", st.rest)
	}
	if how != "fail" {
		rest = ""
	}
	s.kubelet.fail(rest)
	s.kubelet.set(func() { s.kubelet.stall, s.kubelet.takes = how == "stall", takes })
	return err
}

func (s *scenario) exclude(st scenarioStep) error {
	return s.takeOut(inventory.ReasonExcluded, st.rest)
}

func (s *scenario) cordon(st scenarioStep) error {
	return s.takeOut(inventory.ReasonCordoned, st.rest)
}

// takeOut replaces the entries in Exclude that have this reason.
func (s *scenario) takeOut(reason string, ids []string) error {
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

func (s *scenario) severity(st scenarioStep) error {
	words := map[string]inventory.Health{"ignored": inventory.Healthy, "degraded": inventory.Degraded, "fatal": inventory.Unhealthy}
	s.policy.Severity = map[string]inventory.Health{}
	for _, word := range st.rest {
		i := strings.LastIndex(word, "=") // the row may have a value
		health, ok := words[word[i+1:]]
		if i < 0 || !ok {
			return fmt.Errorf("found %q, want ROW=fatal, ROW=degraded or ROW=ignored", word)
		}
		s.policy.Severity[word[:i]] = health
	}
	s.usePolicy()
	return nil
}
