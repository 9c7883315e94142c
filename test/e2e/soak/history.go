// Package soak judges what happened in a soak: random operations on a real cluster, with faults.
//
// The command e2e runs the operations, and writes a history: one line of JSON for each operation and each observation
// (package soak has the lines). A [Checker] reads the lines, while they are written or later from the file, and knows
// nothing but them: it sees what containers can open, what the node offers and what the simulated hardware is, and not
// what the daemon believes.
package soak

// Line is a line of a history. Besides the time, exactly one field is set.
type Line struct {
	At float64 `json:"t"` // seconds since the begin of the run, by the monotonic clock

	Run       *Run       `json:"run,omitempty"` // the first line
	Op        *Op        `json:"op,omitempty"`
	Done      *Done      `json:"done,omitempty"`
	Pod       *Pod       `json:"pod,omitempty"`
	Container *Container `json:"container,omitempty"`
	Port      *Port      `json:"port,omitempty"`
	Offers    *Offers    `json:"offers,omitempty"`
	Quiet     *Quiet     `json:"quiet,omitempty"`
	Wrong     *Wrong     `json:"wrong,omitempty"` // found by the checker
}

// Run says which run it is.
type Run struct {
	Seed    uint64 `json:"seed"`
	Version string `json:"version"` // of the images
	Began   string `json:"began"`   // wall clock, RFC 3339
}

// Op is an operation that begins. It has all that is needed to do the same again.
type Op struct {
	N      int      `json:"n"`              // counts from 1
	Lane   string   `json:"lane,omitempty"` // operations of a lane run one after the other
	Kind   string   `json:"kind"`           // such as pod, delete, plug, kill, stop, upgrade
	Target string   `json:"target,omitempty"`
	Args   []string `json:"args,omitempty"`

	// Disturbs is true for a fault of a part of the cluster or of the plugin: until the operation has ended, and for a
	// while after it, pods wait for longer, and lists may be old.
	Disturbs bool `json:"disturbs,omitempty"`
}

// Done is the end of an operation.
type Done struct {
	N     int    `json:"n"`
	Error string `json:"error,omitempty"` // a refusal, which may be right
}

// Pod is a pod of the soak after a change, as the API server shows it.
type Pod struct {
	Name      string         `json:"name"`
	UID       string         `json:"uid"`
	Wants     map[string]int `json:"wants,omitempty"` // resource, or [Claims], to number of devices
	Phase     string         `json:"phase"`           // Pending, Running, Succeeded, Failed; Gone
	Scheduled bool           `json:"scheduled,omitempty"`
	Deleting  bool           `json:"deleting,omitempty"`
	MayFail   bool           `json:"mayFail,omitempty"` // it may wait for ever, such as for a card with its AFU
	Why       string         `json:"why,omitempty"`     // why it waits or failed
}

// Claims is the name under which pods get devices by claims, and under which slices offer them.
const Claims = "claims"

// Container is a container of a pod of the soak that was found running, or one that has ended. Of one sample, the lines of
// those that have ended come first.
type Container struct {
	PID     int      `json:"pid"`
	Pod     string   `json:"pod"`
	UID     string   `json:"uid"`     // of the pod
	Started float64  `json:"started"` // seconds since the begin of the run; the kernel counts in 10 ms
	Nodes   []string `json:"nodes"`   // numbers of the device nodes of ports in its /dev: MAJOR:MINOR
	Rules   []string `json:"rules"`   // numbers that its cgroup allows it to open
	Ended   bool     `json:"ended,omitempty"`
	Seen    float64  `json:"seen,omitempty"` // if it has ended: the time of the last sample that found it running
}

// Port is a port of the simulated hardware after a change. The line is written when the change was complete.
type Port struct {
	ID       string  `json:"id"`             // as the daemon names it: 01:00.0, 01:00.0-p1
	Since    float64 `json:"since"`          // when the change began
	Node     string  `json:"node,omitempty"` // number of its device node; "": its card is pulled
	AFU      string  `json:"afu,omitempty"`
	Broken   string  `json:"broken,omitempty"` // reason
	Cordoned bool    `json:"cordoned,omitempty"`
	Excluded bool    `json:"excluded,omitempty"` // by the settings
	Unsure   bool    `json:"unsure,omitempty"`   // it is being changed, or a change has failed: it may be fit or not
}

// Offers says which ports each name could give to a pod, healthy in the list of the kubelet's device manager or without
// a taint in a slice: name to ids of ports. The line is written for the first sample and for each that differs. After a second
// without a sample that could be read, a line says so, and the next sample has a line too. If only the slices cannot be read,
// because the API server does not answer, each sample has a line with what the kubelet offers.
type Offers struct {
	Ports  map[string][]string `json:"ports,omitempty"`
	Seen   float64             `json:"seen,omitempty"`   // when the last sample before this one began to be read
	Unread string              `json:"unread,omitempty"` // why no sample can be read; Ports is not known, or lacks the claims
}

// Quiet is what was found after a time without operations, with all faults ended.
type Quiet struct {
	Since   float64            `json:"since"` // when the last operation had ended
	Agreed  bool               `json:"agreed"`
	Differ  []string           `json:"differ,omitempty"`      // what did not agree at the end of the time
	Left    []string           `json:"left,omitempty"`        // left over: sockets, specs, claims, locks
	Waiting []string           `json:"waiting,omitempty"`     // pods that waited at the end of the time
	Memory  map[string]float64 `json:"memory,omitempty"`      // part to MiB, resident
	Files   map[string]int     `json:"descriptors,omitempty"` // part to open descriptors
}

// Wrong is a violation.
type Wrong struct {
	Rule  string   `json:"rule"` // shared, unfit, renamed, unserved, lost, quiet, left, grown
	Text  string   `json:"text"`
	About []string `json:"about"` // pods, ports, node numbers, parts
}
