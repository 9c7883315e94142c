package soak

import (
	"maps"
	"slices"
)

// Limits determines how patient the checker is. Times are in seconds.
type Limits struct {
	// Sample is how long something must look wrong before it counts. Anything shorter may be an artifact of sampling:
	// containers and offers are sampled in turn, and the kernel may list a process for slightly longer than it runs.
	Sample float64
	// Late is the maximum time from the start of a sample until the line with its result, including a line that says
	// that nothing could be read. If there is no line by then, nothing has changed.
	Late float64

	// The following limits count only time in which nothing is disturbed. Settle is how long a fault's effects can last
	// after the fault has ended.
	Settle  float64
	Publish float64 // from when a port breaks until the scheduler must know about it
	Serve   float64 // how long a pod can wait even though enough ports are free
	Away    float64 // how long a port that is fit and free can go without being offered
	// Recorded replaces Away for the ports in [Offers.Recorded]. A daemon can't always tell whether such a port is free
	// or belongs to an init container, so it withholds the port for --tombstone-grace.
	Recorded float64

	Quick  float64 // like Serve and Away, but at the end of a quiet time, and by any clock
	Memory float64 // how many MiB a part can grow by
	Files  int     // how many more descriptors a part can open
}

// DefaultLimits are the limits for a cluster that shares its machine with other work.
var DefaultLimits = Limits{Sample: 0.25, Late: 7, Settle: 15, Publish: 5, Serve: 120, Away: 60, Recorded: 330, Quick: 20, Memory: 16, Files: 10}

// Checker finds violations in a history. Most rules are about states that must not last. Each such state is a
// [condition], which is evaluated after every line and becomes a violation if it is true for longer than its limit.
// Durations are measured up to the time that the samplers have reported on, not up to the latest line. Otherwise,
// whenever a sampler was late, a container would seem to live longer than it did.
//
// Rules that require the plugin to act in time count only undisturbed time. Their clock stops when a fault begins, and
// resumes [Limits.Settle] after the fault has ended. A fault doesn't reset the clock: a soak has faults all the time,
// so a pod that is never served would otherwise go unnoticed. But a condition that becomes false, even briefly, starts
// over.
type Checker struct {
	limits Limits

	ports      map[string]*Port
	numbers    map[string]*number // by device node number
	pods       map[string]*pod    // all pods that have ever existed, by UID
	live       map[string]*pod    // pods that are waiting or may hold devices
	names      map[string]*pod    // the newest pod of each name
	containers map[int]*container // running containers, by PID

	offers       *Offers // nil before the first sample
	unread       bool
	noSlices     bool // the slices couldn't be read, but the kubelet's offers could
	conditions   map[string]*condition
	waited       map[string]*condition // by pod name: the pod's latest condition of waiting despite free ports
	round        int
	calm         calm
	able         calm    // stops while the plugin can't withdraw ports
	now          float64 // time of the latest line
	looked, read float64 // times up to which all containers, and all offers, are known

	first   *Quiet
	grown   map[string]bool
	ops     map[int]Op
	summary Summary
}

// condition is a state that currently exists, and that becomes a violation if it lasts.
type condition struct {
	wrong Wrong
	clock
	since, limit float64 // by the condition's clock
	began, ended float64 // times of the lines
	round        int
	reported     bool
}

// clock selects which time counts toward a condition's limit.
type clock int

const (
	sampledClock clock = iota // time up to which containers have been sampled
	readClock                 // time up to which offers have been sampled
	bothClock                 // time up to which both have been sampled
	ableClock                 // like bothClock, but only time in which the plugin was able to withdraw ports
	calmClock                 // time in which nothing was disturbed
)

// calm is a clock that stops while something is disturbed.
type calm struct {
	open  map[int]bool // operations that are currently disturbing
	since float64      // if open is empty, when the clock last resumed
	total float64      // what the clock showed then
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

// unreadable stands for the one disturbance that isn't an operation: that the offers can't be read.
const unreadable = -1

type pod struct {
	Pod
	created, createdCalm     float64
	scheduled, scheduledCalm float64
	given, numbers           map[string]bool // ports, and device node numbers, that its containers have had
	running                  int             // number of running containers
	served                   bool
}

type container struct {
	Container
	pod    *pod
	calm   float64 // what the calm clock showed when the container was first seen
	judged bool
}

// number describes a device node number. After a card has been pulled, its driver may give the number to a port of
// another card.
type number struct {
	owners []owner
	unfit  []span // when no fit port had the number
}

type owner struct {
	port     string
	from, to float64
}

type span struct {
	from, to, calm float64 // calm is what the calm clock showed at the time from
}

const forever = 1e18 // the end of something that hasn't ended yet

// NewChecker returns a checker for a new history.
func NewChecker(limits Limits) *Checker {
	return &Checker{
		limits: limits, ports: map[string]*Port{}, numbers: map[string]*number{}, pods: map[string]*pod{}, live: map[string]*pod{},
		names: map[string]*pod{}, containers: map[int]*container{}, conditions: map[string]*condition{}, waited: map[string]*condition{}, calm: calm{open: map[int]bool{}},
		able: calm{open: map[int]bool{}}, grown: map[string]bool{}, ops: map[int]Op{}, summary: newSummary(),
	}
}

// Add processes the next line, and returns the violations that it reveals.
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
		if line.Op.stalls() {
			c.able.begin(line.Op.N, c.time(bothClock))
		}
	case line.Done != nil:
		c.summary.end(c.ops[line.Done.N], *line.Done)
		delete(c.ops, line.Done.N)
		c.calm.end(line.Done.N, c.now, c.limits.Settle)
		c.able.end(line.Done.N, c.now, c.limits.Settle)
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

// advance updates the times up to which the samplers have looked. If a line reports a new container, then its sample
// began after the container did, and the lines for containers that the sample no longer found have already been
// written. If a sampler hasn't written any lines lately, advance assumes that it has looked up to Late ago.
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
	case ableClock:
		return c.able.at(c.time(bothClock))
	}
	return c.calm.at(c.now)
}

// overdue returns violations for the conditions that have exceeded their limits.
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

// observe evaluates all conditions. While the offers can't be read, conditions that depend on them keep their state.
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

// known reports whether conditions with this clock can be evaluated now. If they depend on the offers, this is possible
// only while the offers can be read.
func (c *Checker) known(of clock) bool {
	switch of {
	case sampledClock:
		return true
	case calmClock:
		return !c.unread
	}
	return !c.unread || c.noSlices
}

// holds records that a condition is currently true.
func (c *Checker) holds(key string, of clock, since, limit float64, wrong func() Wrong) *condition {
	x := c.conditions[key]
	if x == nil {
		x = &condition{clock: of, since: since, limit: limit, began: c.now, ended: forever, wrong: wrong()}
		c.conditions[key] = x
	}
	x.round = c.round
	return x
}

// addPod processes a pod's state.
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

// serve records that a pod has got the devices that it requested.
func (c *Checker) serve(p *pod) {
	if p.served {
		return
	}
	p.served = true
	c.summary.Started++
	c.summary.LongestServe = max(c.summary.LongestServe, c.now-p.created)
	c.summary.LongestCalmServe = max(c.summary.LongestCalmServe, c.calm.at(c.now)-p.createdCalm)
}

// addContainer processes a container that is running or has ended.
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

// open returns the numbers of the device nodes that a container has in its /dev or is allowed to open.
func (k *container) open() []string {
	all := slices.Concat(k.Nodes, k.Rules)
	slices.Sort(all)
	return slices.Compact(all)
}

// at returns the ports that had the number at time t. If there weren't any, it returns the last port that had the
// number before that.
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

// without reports whether the number belonged to no fit port during the whole time from calm (on the calm clock) to
// until. since is when the period without a fit port began, possibly before calm.
func (n *number) without(calm, until float64) (since float64, ok bool) {
	for _, s := range n.unfit {
		if s.calm <= calm && s.to > until {
			return s.from, true
		}
	}
	return 0, false
}

// unfitness returns why a port must not be offered, or "".
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

// addPort processes a port's state.
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
		// Count a port in an unsure state as fit, because it may be.
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

// addOffers processes a sample of the offers. If this is the first one after a time in which nothing could be read,
// conditions that compare two samples start over.
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

// owners returns the ports that currently have a device node number.
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

// Summary returns the run's figures so far.
func (c *Checker) Summary() Summary { return c.summary }
