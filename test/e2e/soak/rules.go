package soak

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// judge looks for ports that a container should not have been given, and records which ports its pod has been given. It
// runs once per container, as soon as it is known when the pod was scheduled. A container that is restarted later can
// have its pod's ports again.
func (c *Checker) judge(k *container) (found []Wrong) {
	p := k.pod
	if p == nil || !p.Scheduled || k.judged {
		return nil
	}
	k.judged = true
	p.running++
	c.serve(p)
	given := map[string]bool{}
	for _, of := range k.open() {
		n := c.numbers[of]
		if n == nil {
			continue // the device node isn't a port's
		}
		ports := n.at(k.Started)
		known := p.numbers[of] || slices.ContainsFunc(ports, func(port string) bool { return p.given[port] })
		since, ok := n.without(min(p.scheduledCalm, k.calm)-c.limits.Publish, k.Started)
		if ok && !known && p.Wants[OtherPlugin] == 0 {
			port := ports[0]
			found = append(found, Wrong{"unfit", fmt.Sprintf("pod %s was scheduled at %.2f s, and its container that began at %.2f s has %s of %s, %s since %.2f s",
				p.Name, p.scheduled, k.Started, of, port, cmp.Or(c.ports[port].unfitness(), "unfit"), since), []string{p.Name, port, of}})
		}
		for _, port := range ports {
			given[port] = true
		}
		p.numbers[of] = true
	}
	maps.Copy(p.given, given)
	return found
}

// observeShared looks for ports that containers in two pods have at the same time.
func (c *Checker) observeShared() {
	by := map[string][]*container{}
	for _, pid := range slices.Sorted(maps.Keys(c.containers)) {
		k := c.containers[pid]
		for _, of := range k.open() {
			if c.numbers[of] == nil {
				continue
			}
			for _, other := range by[of] {
				if other.UID == k.UID {
					continue
				}
				c.holds(fmt.Sprintf("shared %s %s %s", of, other.UID, k.UID), sampledClock, max(other.Started, k.Started), c.limits.Sample, func() Wrong {
					one, two := other, k
					if one.Started > two.Started {
						one, two = two, one
					}
					port := c.numbers[of].at(c.now)[0]
					return Wrong{"shared", fmt.Sprintf("pod %s has %s of %s (its container began at %.2f s), and so has pod %s (%.2f s)",
						one.Pod, of, port, one.Started, two.Pod, two.Started), []string{one.Pod, two.Pod, port, of}}
				})
			}
			by[of] = append(by[of], k)
		}
	}
}

// offered returns the names under which each port is offered.
func (c *Checker) offered() map[string][]string {
	offered := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(c.offers.Ports)) {
		for _, port := range c.offers.Ports[name] {
			offered[port] = append(offered[port], name)
		}
	}
	return offered
}

// observeRenamed looks for ports that are offered under two names, or under one name while a pod has them under
// another. It also looks for offered ports whose device number a container is allowed to open because another port used
// to have it. Such a port stays offered while the program that could withdraw it doesn't run.
func (c *Checker) observeRenamed(offered map[string][]string) {
	for port, names := range offered {
		if len(names) > 1 {
			c.holds("twice "+port+" "+strings.Join(names, " "), readClock, c.now, c.limits.Sample, func() Wrong {
				return Wrong{"renamed", fmt.Sprintf("%s is offered as %s at once", port, strings.Join(names, " and as ")), []string{port}}
			})
		}
	}
	for _, k := range c.containers {
		p := k.pod
		if p == nil || len(p.Wants) == 0 || !k.judged {
			continue
		}
		for port := range p.given {
			for _, name := range offered[port] {
				if p.Wants[name] == 0 {
					c.holds("renamed "+p.UID+" "+port, bothClock, c.now, c.limits.Sample, func() Wrong {
						return Wrong{"renamed", fmt.Sprintf("%s is offered as %s, and pod %s has it as %s", port, name, p.Name, wants(p.Pod)), []string{p.Name, port}}
					})
				}
			}
		}
		for _, of := range k.open() {
			for _, port := range c.owners(of) {
				if names := offered[port]; len(names) > 0 && !p.given[port] {
					c.holds("renumbered "+p.UID+" "+port, ableClock, c.able.at(c.now), c.limits.Sample, func() Wrong {
						return Wrong{"renamed", fmt.Sprintf("%s is offered as %s, and pod %s can open it: it has got the number %s, which the pod has of another port",
							port, names[0], p.Name, of), []string{p.Name, port, of}}
					})
				}
			}
		}
	}
}

func wants(p Pod) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.Wants)) {
		all = append(all, fmt.Sprintf("%d of %s", p.Wants[name], name))
	}
	return strings.Join(all, " and ")
}

// holding lists the ports that pods have or may have, and these ports' cards.
type holding struct{ ports, cards map[string]bool }

func (c *Checker) held() holding {
	h := holding{map[string]bool{}, map[string]bool{}}
	add := func(ports iter.Seq[string]) {
		for port := range ports {
			h.ports[port], h.cards[card(port)] = true, true
		}
	}
	for _, k := range c.containers {
		for _, of := range k.open() {
			add(slices.Values(c.owners(of)))
		}
		if k.pod != nil { // even if the pod was force-deleted
			add(maps.Keys(k.pod.given))
		}
	}
	for _, p := range c.live {
		add(maps.Keys(p.given))
	}
	return h
}

// card returns the card that a port belongs to.
func card(port string) string {
	before, _, _ := strings.Cut(port, "-p")
	return before
}

// observeLost looks for ports that are fit and free but not offered under any name. All of the card's other ports must
// be fit and free too, because in region mode, a card's ports form a single device. The rule doesn't apply while a
// stuck pod that hasn't started may have been given ports. It also doesn't apply while nothing at all is offered,
// because then no daemon is running. If no daemon comes back, a quiet time will find that.
func (c *Checker) observeLost(held holding, offered map[string][]string) {
	if len(offered) == 0 {
		return
	}
	unfit := map[string]bool{} // cards
	for id, p := range c.ports {
		if p.Node != "" && !p.fit() {
			unfit[card(id)] = true
		}
	}
	for _, p := range c.live {
		if p.Scheduled && len(p.given) == 0 && p.running == 0 && c.now-p.scheduled > c.limits.Quick {
			return
		}
	}
	for id, p := range c.ports {
		if p.fit() && !unfit[card(id)] && !held.cards[card(id)] && len(offered[id]) == 0 {
			key, limit := "lost "+id, c.limits.Away
			if slices.Contains(c.offers.Recorded, id) {
				key, limit = "lost and recorded "+id, c.limits.Recorded
			}
			c.holds(key, calmClock, c.calm.at(c.now), limit, func() Wrong {
				return Wrong{"lost", fmt.Sprintf("%s is fit and free since %.2f s, and is offered under no name", id, c.now), []string{id}}
			})
		}
	}
}

// observeWaiting looks for pods that are waiting even though enough ports are free for all pods that are waiting for
// the same names.
func (c *Checker) observeWaiting(held holding) {
	need, taken, free := map[string]int{}, map[string]int{}, map[string]int{}
	var waiting []*pod
	for _, p := range c.live {
		waits := p.Phase == "Pending" && !p.Deleting && p.running == 0 && len(p.Wants) > 0
		if waits && !p.MayFail {
			waiting = append(waiting, p)
		}
		for name, n := range p.Wants {
			switch {
			case waits || len(p.given) == 0: // it may have been given ports that aren't known yet
				need[name] += n
			case p.Scheduled:
				taken[name] += n
			}
		}
	}
	if waiting == nil {
		return
	}
	// The scheduler subtracts the number of devices that pods have from the number of healthy devices, even if some of
	// the pods' own devices are unhealthy.
	for name, ports := range c.offers.Ports {
		free[name] = units(name, ports, held)
		if name != Claims {
			free[name] = min(free[name], units(name, ports, holding{})-taken[name])
		}
	}
	for _, p := range waiting {
		enough := true
		for name := range p.Wants {
			enough = enough && free[name] >= need[name]
		}
		if enough {
			c.waited[p.Name] = c.holds("unserved "+p.UID, calmClock, c.calm.at(c.now), c.limits.Serve, func() Wrong {
				var all []string
				about := []string{p.Name}
				for _, name := range slices.Sorted(maps.Keys(p.Wants)) {
					all = append(all, fmt.Sprintf("%d of %s are free, and all waiting pods want %d", free[name], name, need[name]))
					about = append(about, c.offers.Ports[name]...)
				}
				return Wrong{"unserved", fmt.Sprintf("pod %s waits (%s) since %.2f s, although %s since %.2f s",
					p.Name, cmp.Or(p.Why, "no reason"), p.created, strings.Join(all, ", and "), c.now), about}
			})
		}
	}
}

// units returns a lower bound on the number of devices that are free under a name. For claims, and for resources in
// region mode, it counts cards instead of ports, because a device may be a whole card.
func units(name string, ports []string, held holding) int {
	free := map[string]bool{}
	for _, port := range ports {
		switch {
		case name == Claims || strings.Contains(name, "/region-"):
			if !held.cards[card(port)] {
				free[card(port)] = true
			}
		case !held.ports[port]:
			free[port] = true
		}
	}
	return len(free)
}

// addQuiet processes a quiet time's findings. Conditions that must not last in undisturbed time must not exist at the
// end of a quiet time either. This check finds violations that the limits miss, because frequent faults keep most
// conditions from ever reaching their limits.
func (c *Checker) addQuiet(q Quiet) (found []Wrong) {
	c.summary.Quiet++
	if !q.Agreed {
		found = append(found, Wrong{"quiet", "what does not agree: " + strings.Join(q.Differ, "; "), q.Differ})
	}
	if len(q.Left) > 0 {
		found = append(found, Wrong{"left", "left over: " + strings.Join(q.Left, "; "), q.Left})
	}
	for _, key := range slices.Sorted(maps.Keys(c.conditions)) {
		if x := c.conditions[key]; x.clock == calmClock && !c.unread {
			found = append(found, c.inQuiet(x, q)...)
		}
	}
	for _, name := range q.Waiting { // the pod may have been deleted since
		if x := c.waited[name]; x != nil {
			found = append(found, c.inQuiet(x, q)...)
		}
	}
	if c.first == nil {
		c.first = &q
	}
	for _, part := range slices.Sorted(maps.Keys(q.Memory)) {
		if before, ok := c.first.Memory[part]; ok {
			found = append(found, c.grows(part, "MiB of memory", before, q.Memory[part], c.limits.Memory)...)
		}
	}
	for _, part := range slices.Sorted(maps.Keys(q.Files)) {
		if before, ok := c.first.Files[part]; ok {
			found = append(found, c.grows(part, "open descriptors", float64(before), float64(q.Files[part]), float64(c.limits.Files))...)
		}
	}
	return found
}

func (c *Checker) inQuiet(x *condition, q Quiet) []Wrong {
	if x.reported || x.ended < q.Since || min(x.ended, c.now)-x.began <= c.limits.Quick {
		return nil
	}
	x.reported = true
	return []Wrong{x.wrong}
}

func (c *Checker) grows(part, of string, before, now, limit float64) []Wrong {
	if now <= before+limit || c.grown[part+of] {
		return nil
	}
	c.grown[part+of] = true
	return []Wrong{{"grown", fmt.Sprintf("%s has %.0f %s, after %.0f in the first quiet time: %.0f more are allowed", part, now, of, before, limit), []string{part}}}
}
