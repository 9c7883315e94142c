// Package soak judges the history of a soak, which runs random operations and faults on a real cluster.
//
// The e2e command runs the operations and writes the history: a line of JSON for each operation and each observation.
// This package defines these lines. They are all that a [Checker] reads, either while they are written or later from
// the file. A Checker therefore knows which devices containers can open, what the node offers, and the state of the
// simulated hardware, but not what the daemon believes.
package soak

import "slices"

// Line is a line in a history. Besides the time, exactly one field is set.
type Line struct {
	At float64 `json:"t"` // seconds since the start of the run, by the monotonic clock

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

// Run describes the run.
type Run struct {
	Seed    uint64 `json:"seed"`
	Version string `json:"version"` // the images' version
	Began   string `json:"began"`   // wall clock time, RFC 3339
}

// Op is the start of an operation. It contains everything that is needed to repeat the operation.
type Op struct {
	N      int      `json:"n"`              // the operation's number, counted from 1
	Lane   string   `json:"lane,omitempty"` // operations in the same lane run one at a time
	Kind   string   `json:"kind"`           // such as pod, delete, plug, kill, stop, upgrade
	Target string   `json:"target,omitempty"`
	Args   []string `json:"args,omitempty"`

	// Disturbs is true if the operation causes a fault in the plugin or in a part of the cluster. Until the operation
	// has ended, and for a while after that, pods may wait longer and lists may be out of date.
	Disturbs bool `json:"disturbs,omitempty"`
}

// stalls reports whether the plugin may be unable to withdraw ports until the operation has ended, because the operation
// stops the daemon, the driver, or a part of the API server, which stores the slices.
func (o Op) stalls() bool {
	return o.Kind == "blind" || (o.Kind == "kill" || o.Kind == "stop") && slices.Contains([]string{"daemon", "driver", "kube-apiserver", "etcd"}, o.Target)
}

// Done is the end of an operation.
type Done struct {
	N     int    `json:"n"`
	Error string `json:"error,omitempty"` // can be a legitimate refusal
}

// Pod is the new state of one of the soak's pods, according to the API server.
type Pod struct {
	Name      string         `json:"name"`
	UID       string         `json:"uid"`
	Wants     map[string]int `json:"wants,omitempty"` // number of devices, by resource name or under [Claims]
	Phase     string         `json:"phase"`           // Pending, Running, Succeeded, Failed or Gone
	Scheduled bool           `json:"scheduled,omitempty"`
	Deleting  bool           `json:"deleting,omitempty"`
	MayFail   bool           `json:"mayFail,omitempty"` // might wait forever, for example for a card with the pod's AFU
	Why       string         `json:"why,omitempty"`     // why it is waiting or has failed
}

// Claims is the name for devices that are allocated through claims, and for the slices that offer them.
const Claims = "claims"

// OtherPlugin is the name under which another plugin allocates ports. The ports are cordoned while it does so.
const OtherPlugin = "other.example/card"

// Container is a container of one of the soak's pods that was found running or has ended. In each sample, the lines for
// containers that have ended come first.
type Container struct {
	PID     int      `json:"pid"`
	Pod     string   `json:"pod"`
	UID     string   `json:"uid"`     // the pod's UID
	Started float64  `json:"started"` // seconds since the start of the run; the kernel's resolution is 10 ms
	Nodes   []string `json:"nodes"`   // MAJOR:MINOR of the ports' device nodes in its /dev
	Rules   []string `json:"rules"`   // MAJOR:MINOR of the devices that its cgroup allows it to open
	Ended   bool     `json:"ended,omitempty"`
	Seen    float64  `json:"seen,omitempty"` // for a container that has ended: when a sample last found it running
}

// Port is the new state of one of the simulated hardware's ports. The line is written once the change is complete.
type Port struct {
	ID       string  `json:"id"`             // its ID in the daemon: 01:00.0, 01:00.0-p1
	Since    float64 `json:"since"`          // when the change began
	Node     string  `json:"node,omitempty"` // its device node's number; "" if its card has been pulled
	AFU      string  `json:"afu,omitempty"`
	Broken   string  `json:"broken,omitempty"` // reason
	Cordoned bool    `json:"cordoned,omitempty"`
	Excluded bool    `json:"excluded,omitempty"` // by the settings
	Unsure   bool    `json:"unsure,omitempty"`   // may or may not be fit, because a change is in progress or has failed
}

// Offers maps each name to the IDs of the ports that pods can get under that name: those that the kubelet's device
// manager lists as healthy, or that a slice lists without a taint. A line is written for the first sample and for each
// sample that differs from the previous one. If no sample can be read for a second, a line says why, and the next
// sample gets a line even if nothing has changed. If only the slices can't be read, because the API server is down,
// every sample gets a line with the kubelet's offers.
type Offers struct {
	Ports  map[string][]string `json:"ports,omitempty"`
	Seen   float64             `json:"seen,omitempty"`   // when reading the previous sample began
	Unread string              `json:"unread,omitempty"` // why no sample can be read; Ports is then empty, or lacks the claims
	// Recorded lists the ports that belong to a container according to the records of the API that the node isn't using
	// at the moment. That container may have ended long ago.
	Recorded []string `json:"recorded,omitempty"`
}

// Quiet describes the state after a time without operations and faults.
type Quiet struct {
	Since   float64            `json:"since"` // when the last operation ended
	Agreed  bool               `json:"agreed"`
	Differ  []string           `json:"differ,omitempty"`      // what still disagreed at the end
	Left    []string           `json:"left,omitempty"`        // what was left behind: sockets, specs, claims, locks
	Waiting []string           `json:"waiting,omitempty"`     // pods that were still waiting at the end
	Memory  map[string]float64 `json:"memory,omitempty"`      // each part's resident memory, in MiB
	Files   map[string]int     `json:"descriptors,omitempty"` // each part's open file descriptors
}

// Wrong is a violation.
type Wrong struct {
	Rule  string   `json:"rule"` // shared, unfit, renamed, unserved, lost, quiet, left or grown
	Text  string   `json:"text"`
	About []string `json:"about"` // pods, ports, node numbers, parts
}
