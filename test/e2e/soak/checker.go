package soak

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Limits say how patient the checker is. Times are in seconds.
type Limits struct {
	// What seems wrong for a shorter time than Sample may only be seen so, because containers and offers are sampled one
	// after the other, and the kernel lists a process until it has been reaped.
	Sample float64
	// Late is the longest time from a sample to the line that says what it has found. After this time without a line, nothing
	// has changed.
	Late float64

	// The rest of the times only run while nothing is disturbed. Settle is how long a fault disturbs after its end.
	Settle  float64
	Publish float64 // from a fault of a port to a scheduler that knows of it
	Serve   float64 // for which a pod may wait although there are enough ports
	Away    float64 // for which a port that is fit and free may be offered under no name
	Quick   float64 // for which a pod may wait in a quiet time although there are enough ports

	Memory float64 // MiB that a part may grow by
	Files  int     // descriptors that a part may open in addition
}

// DefaultLimits are the limits for a cluster that shares its machine.
var DefaultLimits = Limits{Sample: 0.25, Late: 3, Settle: 20, Publish: 5, Serve: 120, Away: 60, Quick: 15, Memory: 16, Files: 10}

// Checker finds what is wrong in a history. Most rules are about something that must not last: its [condition] is looked up
// after each line, and is a violation when it has been true for longer than a limit. Times are compared with the times up to
// which the samplers are known to have looked, and not with the time of the newest line: a sampler that was late must not make
// a container look longer-lived than it was.
//
// Rules that demand something of the plugin within a time only count time without disturbance: that clock stands still from
// the begin of a fault until [Limits.Settle] after its end. It is not restarted by a fault, because a soak has faults all the
// time, and a pod that is never served would never be found. But a condition that is not true for one moment, during a fault or
// not, begins again.
type Checker struct {
	limits Limits

	ports      map[string]*Port
	numbers    map[string]*number // of device nodes
	pods       map[string]*pod    // by UID, all that there were
	live       map[string]*pod    // those that may hold devices, or wait
	names      map[string]*pod    // the newest pod of each name
	containers map[int]*container // that run, by PID

	offers       *Offers // nil before the first sample
	unread       bool
	conditions   map[string]*condition
	round        int
	calm         calm
	now          float64 // time of the newest line
	looked, look float64 // containers: the time up to which all is known, and the time of the newest sample
	read         float64 // offers: the time up to which all is known

	first   *Quiet
	grown   map[string]bool
	ops     map[int]Op
	summary Summary
}

// condition is true now, and wrong if it lasts.
type condition struct {
	wrong Wrong
	clock
	since, limit float64 // by its clock
	began        float64
	round        int
	reported     bool
}

// clock says which time counts for a condition.
type clock int

const (
	sampledClock clock = iota // containers were sampled
	readClock                 // offers were sampled
	bothClock                 // both
	calmClock                 // nothing was disturbed
)

// calm is the clock that stands still while something is disturbed.
type calm struct {
	open  map[int]bool // operations that disturb
	since float64      // if there is none: when it went on
	total float64      // what it showed before that
}

func (c *calm) at(t float64) float64 {
	if len(c.open) > 0 {
		return c.total
	}
	return c.total + max(0, t-c.since)
}

func (c *calm) begin(n int, t float64) {
	c.total = c.at(t)
	c.since = max(c.since, t)
	c.open[n] = true
}

func (c *calm) end(n int, t, settle float64) {
	if c.open[n] {
		delete(c.open, n)
		c.since = max(c.since, t+settle)
	}
}

// unreadable is a disturbance that is no operation.
const unreadable = -1

type pod struct {
	Pod
	created, createdCalm     float64
	scheduled, scheduledCalm float64
	given, numbers           map[string]bool // ports and numbers of its containers
	running                  int             // containers
	served                   bool
	faults                   int // number of faults when it was created
}

type container struct {
	Container
	pod    *pod
	calm   float64 // the calm clock when it was found
	judged bool
}

// number is the number of a device node. Drivers give it to another port after its card was pulled.
type number struct {
	owners []owner
	unfit  []span // times at which no fit port had it
}

type owner struct {
	port     string
	from, to float64
}

type span struct {
	from, to, calm float64 // the calm clock at from
}

const forever = 1e18 // the end of what has not ended

// NewChecker returns a checker of a history that begins.
func NewChecker(limits Limits) *Checker {
	return &Checker{
		limits: limits, ports: map[string]*Port{}, numbers: map[string]*number{}, pods: map[string]*pod{}, live: map[string]*pod{},
		names: map[string]*pod{}, containers: map[int]*container{}, conditions: map[string]*condition{}, calm: calm{open: map[int]bool{}},
		grown: map[string]bool{}, ops: map[int]Op{}, summary: newSummary(),
	}
}

// Add takes the next line, and returns the violations that are found by it.
func (c *Checker) Add(line Line) []Wrong {
	c.now = max(c.now, line.At)
	c.advance(line)
	found := c.overdue()
	switch {
	case line.Op != nil:
		c.summary.begin(*line.Op)
		c.ops[line.Op.N] = *line.Op
		if line.Op.Disturbs {
			c.calm.begin(line.Op.N, c.now)
		}
	case line.Done != nil:
		c.summary.end(c.ops[line.Done.N], *line.Done)
		delete(c.ops, line.Done.N)
		c.calm.end(line.Done.N, c.now, c.limits.Settle)
	case line.Pod != nil:
		found = append(found, c.addPod(*line.Pod)...)
	case line.Container != nil:
		found = append(found, c.addContainer(*line.Container)...)
	case line.Port != nil:
		c.addPort(*line.Port)
	case line.Offers != nil:
		c.addOffers(*line.Offers)
	case line.Quiet != nil:
		found = append(found, c.addQuiet(*line.Quiet)...)
	}
	if line.Pod != nil || line.Container != nil || line.Port != nil || line.Offers != nil {
		c.observe()
	}
	c.summary.Lasted, c.summary.Undisturbed = c.now, c.calm.at(c.now)
	for _, wrong := range found {
		c.summary.Violations[wrong.Rule]++
	}
	return found
}

// advance sets the times up to which the samplers have looked.
func (c *Checker) advance(line Line) {
	const oneSample = 0.02 // its lines are not written at once
	c.looked = max(c.looked, c.now-c.limits.Late)
	if line.Container != nil {
		if c.now > c.look+oneSample {
			c.looked, c.look = max(c.looked, c.look), c.now
		}
		c.looked = max(c.looked, line.Container.Seen)
	}
	c.read = max(c.read, c.now-c.limits.Late)
	if line.Offers != nil {
		c.read = max(c.read, line.Offers.Seen)
	}
}

func (c *Checker) time(of clock) float64 {
	switch of {
	case sampledClock:
		return c.looked
	case readClock:
		return c.read
	case bothClock:
		return min(c.looked, c.read)
	}
	return c.calm.at(c.now)
}

// overdue returns the violations by conditions that have lasted for too long.
func (c *Checker) overdue() []Wrong {
	var found []Wrong
	for _, key := range slices.Sorted(maps.Keys(c.conditions)) {
		x := c.conditions[key]
		if c.unread && x.clock != sampledClock {
			continue
		}
		lasted := c.time(x.clock) - x.since
		if x.wrong.Rule == "unserved" {
			c.summary.LongestFree = max(c.summary.LongestFree, lasted)
		}
		if lasted > x.limit && !x.reported {
			x.reported = true
			found = append(found, x.wrong)
		}
	}
	return found
}

// observe looks up all conditions. Those that need offers stay as they are while none can be read.
func (c *Checker) observe() {
	c.round++
	c.observeShared()
	if c.offers != nil && !c.unread {
		held := c.held()
		offered := c.offered()
		c.observeRenamed(offered)
		c.observeLost(held, offered)
		c.observeWaiting(held)
	}
	maps.DeleteFunc(c.conditions, func(_ string, x *condition) bool {
		return x.round != c.round && (!c.unread || x.clock == sampledClock)
	})
}

// holds notes a condition that is true.
func (c *Checker) holds(key string, of clock, since, limit float64, wrong func() Wrong) {
	x := c.conditions[key]
	if x == nil {
		x = &condition{clock: of, since: since, limit: limit, began: c.now, wrong: wrong()}
		c.conditions[key] = x
	}
	x.round = c.round
}

// addPod takes the state of a pod.
func (c *Checker) addPod(p Pod) []Wrong {
	known := c.pods[p.UID]
	if known == nil {
		known = &pod{created: c.now, createdCalm: c.calm.at(c.now), given: map[string]bool{}, numbers: map[string]bool{}, faults: c.summary.faults()}
		c.pods[p.UID] = known
		c.summary.Pods++
	}
	if len(p.Wants) == 0 {
		p.Wants = known.Wants
	}
	if p.Scheduled && !known.Scheduled {
		known.scheduled, known.scheduledCalm = c.now, c.calm.at(c.now)
	}
	p.Scheduled = p.Scheduled || known.Scheduled
	known.Pod = p
	c.names[p.Name] = known
	if p.Phase == "Pending" || p.Phase == "Running" {
		c.live[p.UID] = known
	} else {
		delete(c.live, p.UID)
	}
	if p.Phase == "Running" || p.Phase == "Succeeded" {
		c.serve(known)
	}
	var found []Wrong
	for _, pid := range slices.Sorted(maps.Keys(c.containers)) {
		if k := c.containers[pid]; k.UID == p.UID {
			k.pod = known
			found = append(found, c.judge(k)...)
		}
	}
	return found
}

// serve notes that a pod has got what it wanted.
func (c *Checker) serve(p *pod) {
	if p.served {
		return
	}
	p.served = true
	c.summary.Started++
	c.summary.LongestServe = max(c.summary.LongestServe, c.now-p.created)
	if c.summary.faults() == p.faults && c.calm.at(c.now)-p.createdCalm > c.now-p.created-0.001 {
		c.summary.LongestCalmServe = max(c.summary.LongestCalmServe, c.now-p.created)
	}
}

// addContainer takes a container that runs or has ended.
func (c *Checker) addContainer(k Container) []Wrong {
	if old := c.containers[k.PID]; old != nil && (k.Ended || old.UID != k.UID || old.Started != k.Started) {
		delete(c.containers, k.PID)
		if old.judged {
			old.pod.running--
		}
	}
	if k.Ended {
		return nil
	}
	running := c.containers[k.PID]
	if running == nil {
		running = &container{pod: c.pods[k.UID], calm: c.calm.at(c.now)}
		c.containers[k.PID] = running
		c.summary.Containers++
	}
	running.Container = k
	return c.judge(running)
}

// open returns the numbers of the ports that a container has or may open.
func (k *container) open() []string {
	all := slices.Concat(k.Nodes, k.Rules)
	slices.Sort(all)
	return slices.Compact(all)
}

// judge finds ports that a container should not have got, as soon as it is known when its pod was scheduled, and notes which
// ports its pod has got. It does so once, so that a container that is restarted later may have them again.
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
			continue // of a node that is no port's
		}
		ports := n.at(k.Started)
		known := p.numbers[of] || slices.ContainsFunc(ports, func(port string) bool { return p.given[port] })
		since, ok := n.without(min(p.scheduled, k.Started), k.Started, min(p.scheduledCalm, k.calm)-c.limits.Publish)
		if ok && !known {
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

// at returns the ports that had the number at a time, or the last one before it.
func (n *number) at(t float64) (ports []string) {
	for _, o := range n.owners {
		if o.from <= t && t <= o.to {
			ports = append(ports, o.port)
		}
	}
	if ports == nil {
		for _, o := range n.owners {
			if ports == nil || o.from <= t {
				ports = []string{o.port}
			}
		}
	}
	return ports
}

// without reports whether no fit port had the number from a time to another one, and before that since this time of the calm
// clock.
func (n *number) without(from, to, calm float64) (since float64, ok bool) {
	for _, s := range n.unfit {
		if s.from <= from && s.calm <= calm && s.to > to {
			return s.from, true
		}
	}
	return 0, false
}

// unfitness says why a port may not be offered, or "".
func (p *Port) unfitness() string {
	switch {
	case p.Node == "":
		return "pulled"
	case p.Broken != "":
		return "broken (" + p.Broken + ")"
	case p.Cordoned:
		return "cordoned"
	case p.Excluded:
		return "excluded"
	}
	return ""
}

// fit reports whether a port should be offered.
func (p *Port) fit() bool { return p.unfitness() == "" && !p.Unsure }

// addPort takes the state of a port.
func (c *Checker) addPort(p Port) {
	changed := []string{p.Node}
	if old := c.ports[p.ID]; old == nil || old.Node != p.Node {
		if old != nil && old.Node != "" {
			changed = append(changed, old.Node)
			n := c.numbers[old.Node]
			for i := range n.owners {
				if o := &n.owners[i]; o.port == p.ID && o.to == forever {
					o.to = c.now
				}
			}
		}
		if p.Node != "" {
			n := c.numbers[p.Node]
			if n == nil {
				n = &number{}
				c.numbers[p.Node] = n
			}
			n.owners = append(n.owners, owner{p.ID, p.Since, forever})
		}
	}
	c.ports[p.ID] = &p
	c.summary.Changes++
	for _, of := range changed {
		n := c.numbers[of]
		if n == nil {
			continue
		}
		// What is unsure may be fit.
		fit := slices.ContainsFunc(n.owners, func(o owner) bool {
			return o.to == forever && (c.ports[o.port].unfitness() == "" || c.ports[o.port].Unsure)
		})
		was := len(n.unfit) == 0 || n.unfit[len(n.unfit)-1].to != forever
		switch {
		case was && !fit:
			n.unfit = append(n.unfit, span{c.now, forever, c.calm.at(c.now)})
		case !was && fit:
			n.unfit[len(n.unfit)-1].to = p.Since
		}
	}
}

// addOffers takes what is offered. After a time in which nothing could be read, the conditions that need two samples begin again.
func (c *Checker) addOffers(o Offers) {
	if o.Unread != "" {
		c.unread = true
		c.calm.begin(unreadable, c.now)
		return
	}
	if c.unread {
		c.unread = false
		c.calm.end(unreadable, c.now, 0)
		for _, x := range c.conditions {
			if x.clock == readClock || x.clock == bothClock {
				x.since = c.now
			}
		}
	}
	c.offers = &o
	c.summary.Offers++
}

// observeShared looks for two containers that have the same port.
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

// observeRenamed looks for ports that are offered under two names, or under another name than the one that a pod has them by. A
// port that got the number of a device node that a container has must not be offered at all.
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
					c.holds("renumbered "+p.UID+" "+port, bothClock, c.now, c.limits.Sample, func() Wrong {
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

// owners returns the ports that have a number now.
func (c *Checker) owners(of string) (ports []string) {
	if n := c.numbers[of]; n != nil {
		for _, o := range n.owners {
			if o.to == forever {
				ports = append(ports, o.port)
			}
		}
	}
	return ports
}

// holding has the ports that pods may have, and the cards of these.
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
		if k.pod != nil { // also of one that was deleted by force
			add(maps.Keys(k.pod.given))
		}
	}
	for _, p := range c.live {
		add(maps.Keys(p.given))
	}
	return h
}

// card returns the card of a port.
func card(port string) string {
	before, _, _ := strings.Cut(port, "-p")
	return before
}

// observeLost looks for ports that are fit and free, and offered under no name. Their cards must be so too, because in mode
// region the ports of a card belong together. Nothing is said while a pod is stuck that may have got ports, and has not started.
func (c *Checker) observeLost(held holding, offered map[string][]string) {
	unfit := map[string]bool{} // cards
	for id, p := range c.ports {
		if p.Node != "" && !p.fit() {
			unfit[card(id)] = true
		}
	}
	for _, p := range c.live {
		if p.Scheduled && len(p.given) == 0 && c.now-p.scheduled > c.limits.Quick {
			return
		}
	}
	for id, p := range c.ports {
		if p.fit() && !unfit[card(id)] && !held.cards[card(id)] && len(offered[id]) == 0 {
			c.holds("lost "+id, calmClock, c.calm.at(c.now), c.limits.Away, func() Wrong {
				return Wrong{"lost", fmt.Sprintf("%s is fit and free since %.2f s, and is offered under no name", id, c.now), []string{id}}
			})
		}
	}
}

// observeWaiting looks for pods that wait although there are enough ports for all pods that wait for the same names.
func (c *Checker) observeWaiting(held holding) {
	need, free := map[string]int{}, map[string]int{}
	var waiting []*pod
	for _, p := range c.live {
		waits := p.Phase == "Pending" && !p.Deleting && p.running == 0 && len(p.Wants) > 0
		if waits {
			waiting = append(waiting, p)
		}
		if waits || len(p.given) == 0 { // it may have got ports that are not known
			for name, n := range p.Wants {
				need[name] += n
			}
		}
	}
	if waiting == nil {
		return
	}
	for name, ports := range c.offers.Ports {
		free[name] = units(name, ports, held)
	}
	for _, p := range waiting {
		enough := true
		for name := range p.Wants {
			enough = enough && free[name] >= need[name]
		}
		if enough {
			c.holds("unserved "+p.UID, calmClock, c.calm.at(c.now), c.limits.Serve, func() Wrong {
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

// units returns how many devices are free at least. A device of claims, or of a resource of mode region, may be a card with all
// its ports.
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

// addQuiet takes what was found in a quiet time. A pod that waits must not have waited for long while there were enough ports.
func (c *Checker) addQuiet(q Quiet) (found []Wrong) {
	c.summary.Quiet++
	if !q.Agreed {
		found = append(found, Wrong{"quiet", "what does not agree: " + strings.Join(q.Differ, "; "), q.Differ})
	}
	if len(q.Left) > 0 {
		found = append(found, Wrong{"left", "left over: " + strings.Join(q.Left, "; "), q.Left})
	}
	for _, name := range q.Waiting {
		if p := c.names[name]; p != nil && c.offers != nil && !c.unread {
			if x := c.conditions["unserved "+p.UID]; x != nil && !x.reported && c.now-x.began > c.limits.Quick {
				x.reported = true
				found = append(found, x.wrong)
			}
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

func (c *Checker) grows(part, of string, before, now, limit float64) []Wrong {
	if now <= before+limit || c.grown[part+of] {
		return nil
	}
	c.grown[part+of] = true
	return []Wrong{{"grown", fmt.Sprintf("%s has %.0f %s, after %.0f in the first quiet time: %.0f more are allowed", part, now, of, before, limit), []string{part}}}
}

// Summary returns the numbers so far.
func (c *Checker) Summary() Summary { return c.summary }
