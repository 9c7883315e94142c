package mapping

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"b-com.com/accelerator-device-plugin/offer/names"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
)

// Modes is a set of node modes.
type Modes uint8

// Modes in which nodes advertise resources.
const (
	AF          Modes = 1 << iota // ports with an AFU
	Region                        // cards that are programmed before the container starts
	RegionDevel                   // cards that the container programs
)

// String returns the modes' names, such as "region" or "region or regiondevel".
func (m Modes) String() string {
	var all []string
	for i, name := range []string{"af", "region", "regiondevel"} {
		if m&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return strings.Join(all, " or ")
}

// Kinds of objects.
const (
	KindFunction = "AcceleratorFunction"
	KindRegion   = "FpgaRegion"
)

// Mapping describes the resource that an object's name stands for, or why it doesn't stand for one.
type Mapping struct {
	Kind      string
	Name      string // the object's name
	Mode      Modes  // a single mode
	Interface string
	AFU       string // "" for an FpgaRegion

	// Resource is the resource that the name stands for, including its domain. It is "" if Problem is set.
	Resource string
	Problem  *Problem
}

// Problem describes why a name doesn't stand for a resource.
type Problem struct {
	Reason  string // the condition's reason: one word
	Message string
}

func (p *Problem) Error() string { return p.Message }

// Values of Problem.Reason.
const (
	InvalidName        = "InvalidName"
	InvalidInterfaceID = "InvalidInterfaceID"
	InvalidAFUID       = "InvalidAFUID"
	InvalidMode        = "InvalidMode"
)

func problem(reason, format string, args ...any) *Problem {
	return &Problem{reason, fmt.Sprintf(format, args...)}
}

// OfFunction returns an AcceleratorFunction's mapping. domain is the resource's domain.
func OfFunction(domain string, f *v2.AcceleratorFunction) Mapping {
	m := Mapping{Kind: KindFunction, Name: f.Name, Interface: f.Spec.InterfaceID, AFU: f.Spec.AfuID}
	var name string
	switch f.Spec.Mode {
	case v2.ModeAF:
		m.Mode = AF
		name, _ = names.AF(m.Interface, m.AFU)
	case v2.ModeRegion:
		m.Mode = Region
		name, _ = names.Region(m.Interface)
	}
	switch {
	case m.Mode == 0:
		// There may be objects with other modes, because Intel's schema accepts any mode that begins with af or ends
		// with region.
		m.Problem = problem(InvalidMode, "mode: found %.40q, want %q or %q", f.Spec.Mode, v2.ModeAF, v2.ModeRegion)
	case !isCard(m.Interface):
		m.Problem = badInterface(m.Interface)
	case m.Mode == AF && !isCard(m.AFU):
		m.Problem = problem(InvalidAFUID, "afuId: found %.40q (%d characters), want in mode %s the AFU id of a port: 32 hexadecimal digits in lower case, not all f; the hash of an AOCX is possible in mode %s only",
			m.AFU, len(m.AFU), v2.ModeAF, v2.ModeRegion)
	case m.Mode == Region && !isBitstream(m.AFU):
		m.Problem = problem(InvalidAFUID, "afuId: found %.40q (%d characters), want an AFU id or the hash of an AOCX: 8 to 40 hexadecimal digits in lower case, not all f", m.AFU, len(m.AFU))
	default:
		m.name(domain, name)
	}
	return m
}

// OfRegion returns an FpgaRegion's mapping. domain is the resource's domain.
func OfRegion(domain string, r *v2.FpgaRegion) Mapping {
	m := Mapping{Kind: KindRegion, Name: r.Name, Mode: RegionDevel, Interface: r.Spec.InterfaceID}
	if !isCard(m.Interface) {
		m.Problem = badInterface(m.Interface)
		return m
	}
	name, _ := names.Region(m.Interface)
	m.name(domain, name)
	return m
}

func badInterface(id string) *Problem {
	return problem(InvalidInterfaceID, "interfaceId: found %.40q (%d characters), want the interface id of a card: 32 hexadecimal digits in lower case, not all f", id, len(id))
}

// name sets the mapping's resource to name or, if pods can't request the object by its name, sets the mapping's
// problem.
func (m *Mapping) name(domain, name string) {
	switch {
	case len(m.Name) > 63: // the API server rejects all other names that can't be part of a resource name
		m.Problem = problem(InvalidName, "name: found %d characters, want at most 63: it is part of the name of a resource", len(m.Name))
	case isResource(m.Name) && m.Name != name:
		m.Problem = problem(InvalidName, "name: found that of another resource, want another name; this object stands for %s", name)
	default:
		m.Resource = domain + "/" + name
	}
}

// isResource reports whether an object's name looks like a resource in region or regiondevel mode. Resource names in af
// mode contain base64, which in practice includes capital letters, so objects can't have such names.
func isResource(name string) bool {
	id, ok := strings.CutPrefix(name, "region-")
	return ok && names.IsID(id)
}

// isCard reports whether a card can have this ID. If a card doesn't respond, all digits of its ID read as f.
func isCard(id string) bool { return names.IsID(id) && strings.Trim(id, "f") != "" }

// isBitstream reports whether the hook accepts id as a bitstream's ID.
func isBitstream(id string) bool {
	return len(id) >= 8 && len(id) <= 40 && strings.Trim(id, "0123456789abcdef") == "" && strings.Trim(id, "f") != ""
}

// Table contains a namespace's mappings.
type Table struct {
	domain    string
	functions []v2.AcceleratorFunction
	regions   []v2.FpgaRegion
	all       func() []Mapping // derives all mappings when first called, because most pods need only one
}

// NewTable returns a table of the names that the objects in a namespace define, which stand for resources in domain.
// The objects must not change while the table is in use.
func NewTable(domain string, functions []v2.AcceleratorFunction, regions []v2.FpgaRegion) *Table {
	t := &Table{domain: domain, functions: functions, regions: regions}
	t.all = sync.OnceValue(func() []Mapping { return t.derive(func(string) bool { return true }) })
	return t
}

// derive returns the mappings of the objects for whose names wanted returns true.
func (t *Table) derive(wanted func(name string) bool) (all []Mapping) {
	for i := range t.functions {
		if f := &t.functions[i]; wanted(f.Name) {
			all = append(all, OfFunction(t.domain, f))
		}
	}
	for i := range t.regions {
		if r := &t.regions[i]; wanted(r.Name) {
			all = append(all, OfRegion(t.domain, r))
		}
	}
	return all
}

// ofResource returns the mappings whose resource has this name (without the domain).
func (t *Table) ofResource(name string) (all []Mapping) {
	if !names.Ours(name) {
		return nil
	}
	resource := t.domain + "/" + name
	for _, m := range t.all() {
		if m.Resource == resource {
			all = append(all, m)
		}
	}
	return all
}

// Domain returns the resources' domain.
func (t *Table) Domain() string { return t.domain }

// maxNames limits the number of names in an error.
const maxNames = 20

// Known lists the names that pods can request, as text for the end of an error message.
func (t *Table) Known() string {
	objects := map[string]int{}
	for _, m := range t.all() {
		objects[m.Name]++
	}
	var all []string
	for _, m := range t.all() {
		if m.Problem == nil && objects[m.Name] == 1 {
			all = append(all, m.Name)
		}
	}
	if len(all) == 0 {
		return "usable names: none"
	}
	slices.Sort(all)
	if more := len(all) - maxNames; more > 0 {
		all = append(all[:maxNames], fmt.Sprintf("and %d more", more))
	}
	return "usable names: " + strings.Join(all, ", ")
}

// Target is what a name in a pod stands for.
type Target struct {
	Resource string
	Modes    Modes
	Function *Mapping // the function that each device is programmed with; nil if there is none
	Real     bool     // the pod uses the resource's name itself
}

// ErrUnknown is the error for a name that doesn't belong to any object.
var ErrUnknown = errors.New("found no " + KindFunction + " or " + KindRegion + " of that name in this namespace")

// Find returns what a name (without the domain) stands for.
func (t *Table) Find(name string) (Target, error) {
	// Resource names take precedence, so that mutating a pod again doesn't change it.
	if all := t.ofResource(name); all != nil {
		target := Target{Resource: t.domain + "/" + name, Real: true}
		for _, m := range all {
			target.Modes |= m.Mode
		}
		return target, nil
	}
	all := t.derive(func(object string) bool { return object == name })
	switch {
	case len(all) == 0:
		return Target{}, fmt.Errorf("%w; %s", ErrUnknown, t.Known())
	case len(all) > 1:
		return Target{}, fmt.Errorf("found both an %s and an %s of that name, want one", KindFunction, KindRegion)
	case all[0].Problem != nil:
		return Target{}, fmt.Errorf("%s %s cannot be used: %w; %s", all[0].Kind, name, all[0].Problem, t.Known())
	}
	target := Target{Resource: all[0].Resource, Modes: all[0].Mode}
	if all[0].Mode == Region {
		target.Function = &all[0]
	}
	return target, nil
}

// Allows reports whether pods in the namespace can have cards with the given interface programmed with the given AFU,
// which requires a function in region mode that specifies both.
func (t *Table) Allows(iface, afu string) bool {
	name, ok := names.Region(iface)
	return ok && slices.ContainsFunc(t.ofResource(name), func(m Mapping) bool {
		return m.Mode == Region && m.AFU == afu
	})
}
