package port

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"b-com.com/accelerator-device-plugin/inventory"
)

// merge makes one of what was found at the ports of a region and at the parts that
// they share: first what is wrong with the region itself, then with its ports in
// their order, then with the parts. Each reason is there once.
func merge(own []inventory.Condition, ports []inventory.Unit, parts ...*findings) findings {
	all := someFiles()
	for _, c := range own {
		all.join(c)
	}
	for i := range ports {
		all.takePort(&ports[i], len(ports) > 1)
	}
	for _, part := range parts {
		for _, c := range part.conditions {
			all.join(c)
		}
		all.files = append(all.files, part.files...)
		all.counters = append(all.counters, part.counters...)
	}
	return all
}

// takePort takes in what was found at a port. Its files and counters are known by
// its directory, whether or not there are others just now: ports come and go while
// the region stays. Reasons say nothing of the port; where it is one of several,
// the words behind them do.
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
		f.files = append(f.files, file)
	}
	for _, counter := range p.Counters {
		counter.Name = p.Name + "/" + counter.Name
		f.counters = append(f.counters, counter)
	}
}

// join takes in a condition that others may have given already: it counts as the
// worst of them, and Err has the words of all.
func (f *findings) join(c inventory.Condition) {
	i := slices.IndexFunc(f.conditions, func(old inventory.Condition) bool { return old.Reason == c.Reason })
	if i < 0 {
		f.conditions = append(f.conditions, c)
		return
	}
	old := f.conditions[i]
	worst := old
	if c.Health > old.Health {
		worst = c
	}
	worst.Dead = old.Dead || c.Dead
	worst.Err = errors.Join(old.Err, c.Err)
	f.conditions[i] = worst
}
