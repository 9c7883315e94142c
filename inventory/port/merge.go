package port

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// merge returns the findings of a region: its own conditions, then those of its ports in order,
// then those of the shared parts. Each reason occurs once.
func merge(own []inventory.Condition, ports []inventory.Unit, parts ...*pci.Findings) findings {
	all := findings{pci.NewFindings()}
	for _, c := range own {
		all.join(c)
	}
	for i := range ports {
		all.takePort(&ports[i], len(ports) > 1)
	}
	for _, part := range parts {
		for _, c := range part.Conditions {
			all.join(c)
		}
		all.Files = append(all.Files, part.Files...)
		all.Counters = append(all.Counters, part.Counters...)
	}
	return all
}

// takePort adds the findings of a port. The names of its files and counters begin with the port's
// directory, even if the region has only one port, because ports may be added and removed while the
// region stays. Reasons do not name the port. If there are several ports, errors name it.
func (f *findings) takePort(p *inventory.Unit, several bool) {
	for _, c := range p.Conditions {
		if several {
			c.Err = fmt.Errorf("%s: %w", p.Name, cmp.Or(c.Err, errors.New(c.Reason)))
		}
		f.join(c)
	}
	for _, file := range p.Files {
		file.Reason = cmp.Or(file.Reason, inventory.ReasonUnreadable+"="+file.Name)
		file.Name = p.Name + "/" + file.Name
		f.Files = append(f.Files, file)
	}
	for _, counter := range p.Counters {
		counter.Name = p.Name + "/" + counter.Name
		f.Counters = append(f.Counters, counter)
	}
}

// join adds a condition. If there is one with the same reason, the result has the worst severity
// and all errors.
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
