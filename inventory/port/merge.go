package port

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// merge returns a region's findings: first its own conditions, then the findings of its ports in order, then the
// findings of the parts that the ports share. Each reason occurs only once.
func merge(own []inventory.Condition, ports []inventory.Unit, parts ...*pci.Findings) findings {
	all := findings{pci.NewFindings()}
	for _, c := range own {
		all.join(c)
	}
	for i := range ports {
		all.take(findingsOf(&ports[i], len(ports) > 1))
	}
	for _, part := range parts {
		all.take(part)
	}
	return all
}

// findingsOf returns a port's findings. The names of files and counters begin with the port's directory even if the
// region has only one port, because ports can be added and removed while the region stays. The port's name is added to
// the errors of conditions if there are several ports, but never to the reasons. p must not be used afterwards.
func findingsOf(p *inventory.Unit, several bool) *pci.Findings {
	f := &pci.Findings{Conditions: p.Conditions, Files: p.Files, Counters: p.Counters}
	f.Prefix(p.Name + "/")
	for i := range f.Conditions {
		if c := &f.Conditions[i]; several {
			c.Err = fmt.Errorf("%s: %w", p.Name, cmp.Or(c.Err, errors.New(c.Reason)))
		}
	}
	return f
}

// take adds a part's findings.
func (f *findings) take(part *pci.Findings) {
	for _, c := range part.Conditions {
		f.join(c)
	}
	f.Files = append(f.Files, part.Files...)
	f.Counters = append(f.Counters, part.Counters...)
}

// join adds a condition. If there already is one with the same reason, it combines them, keeping the worst severity and
// all errors.
func (f *findings) join(c inventory.Condition) {
	i := slices.IndexFunc(f.Conditions, func(old inventory.Condition) bool { return old.Reason == c.Reason })
	if i < 0 {
		f.Conditions = append(f.Conditions, c)
		return
	}
	old := f.Conditions[i]
	worst := old
	if c.Health > old.Health {
		worst = c
	}
	worst.Dead = old.Dead || c.Dead
	worst.Err = errors.Join(old.Err, c.Err)
	f.Conditions[i] = worst
}
