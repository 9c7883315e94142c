package soak

import (
	"maps"
	"slices"
)

// Limits say how patient the checker is. Times are in seconds.
type Limits struct {
	// What seems wrong for a shorter time than Sample may only be seen so, because containers and offers are sampled one
	// after the other, and the kernel may list a process for a little longer.
	Sample float64
	// Late is the longest time from the begin of a sample to the line that says what it has found, or that it cannot be read.
	// After this time without a line, nothing has changed.
	Late float64

	// These times only run while nothing is disturbed. Settle is how long a fault disturbs after its end.
	Settle  float64
	Publish float64 // from a fault of a port to a scheduler that knows of it
	Serve   float64 // for which a pod may wait although there are enough ports
	Away    float64 // for which a port that is fit and free may be offered under no name

	Quick  float64 // Serve and Away at the end of a quiet time, by any clock
	Memory float64 // MiB that a part may grow by
	Files  int     // descriptors that a part may open in addition
}

// DefaultLimits are the limits for a cluster that shares its machine.
var DefaultLimits = Limits{Sample: 0.25, Late: 7, Settle: 15, Publish: 5, Serve: 120, Away: 60, Quick: 20, Memory: 16, Files: 10}

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
	noSlices     bool // unread, but the kubelet's offers are known
	conditions   map[string]*condition
	waited       map[string]*condition // the newest one of each pod that has waited although there were enough ports
	round        int
	calm         calm
	now          float64 // time of the newest line
	looked, read float64 // the times up to which all containers and offers are known

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
	began, ended float64 // times of the lines
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
		names: map[string]*pod{}, containers: map[int]*container{}, conditions: map[string]*condition{}, waited: map[string]*condition{}, calm: calm{open: map[int]bool{}},
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

// advance sets the times up to which the samplers have looked. A sample that finds a new container began after the container did,
// and all containers that it did not find have their lines before that. Without lines, a sampler has looked Late ago.
func (c *Checker) advance(line Line) {
	c.looked, c.read = max(c.looked, c.now-c.limits.Late), max(c.read, c.now-c.limits.Late)
	switch {
	case line.Container != nil && line.Container.Ended:
		c.looked = max(c.looked, line.Container.Seen)
	case line.Container != nil:
		c.looked = max(c.looked, line.Container.Started)
	case line.Offers != nil:
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
		if !c.known(x.clock) {
			continue
		}
		lasted := c.time(x.clock) - x.since
		if x.wrong.Rule == "unserved" {
			c.summary.LongestFree = max(c.summary.LongestFree, c.now-x.began)
			c.summary.LongestCalmFree = max(c.summary.LongestCalmFree, lasted)
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
	if c.offers != nil && c.known(readClock) {
		held := c.held()
		offered := c.offered()
		c.observeRenamed(offered)
		if c.known(calmClock) {
			c.observeLost(held, offered)
			c.observeWaiting(held)
		}
	}
	for key, x := range c.conditions {
		if x.round != c.round && c.known(x.clock) {
			x.ended = c.now
			delete(c.conditions, key)
		}
	}
}

// known reports whether the offers are known that conditions with this clock need.
func (c *Checker) known(of clock) bool {
	switch of {
	case sampledClock:
		return true
	case calmClock:
		return !c.unread
	}
	return !c.unread || c.noSlices
}

// holds notes a condition that is true.
func (c *Checker) holds(key string, of clock, since, limit float64, wrong func() Wrong) *condition {
	x := c.conditions[key]
	if x == nil {
		x = &condition{clock: of, since: since, limit: limit, began: c.now, ended: forever, wrong: wrong()}
		c.conditions[key] = x
	}
	x.round = c.round
	return x
}

// addPod takes the state of a pod.
func (c *Checker) addPod(p Pod) []Wrong {
	known := c.pods[p.UID]
	if known == nil {
		known = &pod{created: c.now, createdCalm: c.calm.at(c.now), given: map[string]bool{}, numbers: map[string]bool{}}
		c.pods[p.UID] = known
		c.summary.Pods++
	}
	if len(p.Wants) == 0 {
		p.Wants = known.Wants
	}
	if p.Scheduled && !known.Scheduled {
		known.scheduled, known.scheduledCalm = c.now, c.calm.at(c.now)
	}
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
	c.summary.LongestCalmServe = max(c.summary.LongestCalmServe, c.calm.at(c.now)-p.createdCalm)
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

// without reports whether no fit port had the number until a time, since this time of the calm clock or before it.
func (n *number) without(calm, until float64) (since float64, ok bool) {
	for _, s := range n.unfit {
		if s.calm <= calm && s.to > until {
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
	known := c.known(readClock)
	c.unread, c.noSlices = o.Unread != "", o.Ports != nil
	if c.unread {
		c.calm.begin(unreadable, c.now)
	} else {
		c.calm.end(unreadable, c.now, 0)
	}
	if !c.known(readClock) {
		return
	}
	for _, x := range c.conditions {
		if !known && (x.clock == readClock || x.clock == bothClock) {
			x.since = c.now
		}
	}
	c.offers = &o
	c.summary.Offers++
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

// Summary returns the numbers so far.
func (c *Checker) Summary() Summary { return c.summary }
