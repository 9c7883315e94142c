// Package soak judges what happened in a soak, which runs random operations on a real cluster, with faults.
//
// The command e2e runs the operations, and writes a history: one line of JSON for each operation and each observation.
// This package defines the lines. A [Checker] reads only these lines, either while they are written or later from the
// file. So it knows what containers can open, what the node offers and what the simulated hardware is like. It does not
// know what the daemon believes.
package soak

// Line is a line of a history. In addition to the time, exactly one field is set.
type Line struct {
	At float64 `json:"t"` // seconds since the beginning of the run, by the monotonic clock

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
	Version string `json:"version"` // of the images
	Began   string `json:"began"`   // wall clock, RFC 3339
}

// Op is the beginning of an operation. It contains everything that is needed to repeat the operation.
type Op struct {
	N      int      `json:"n"`              // number of the operation, from 1
	Lane   string   `json:"lane,omitempty"` // operations of a lane run one after the other
	Kind   string   `json:"kind"`           // such as pod, delete, plug, kill, stop, upgrade
	Target string   `json:"target,omitempty"`
	Args   []string `json:"args,omitempty"`

	// Disturbs is true for a fault of a part of the cluster or of the plugin. Until the operation has ended, and for a
	// while afterwards, pods may wait longer and lists may be outdated.
	Disturbs bool `json:"disturbs,omitempty"`
}

// Done is the end of an operation.
type Done struct {
	N     int    `json:"n"`
	Error string `json:"error,omitempty"` // may be a refusal, and correct
}

// Pod is the state of a pod of the soak after a change, as the API server shows it.
type Pod struct {
	Name      string         `json:"name"`
	UID       string         `json:"uid"`
	Wants     map[string]int `json:"wants,omitempty"` // number of devices by resource, or by [Claims]
	Phase     string         `json:"phase"`           // Pending, Running, Succeeded, Failed; Gone
	Scheduled bool           `json:"scheduled,omitempty"`
	Deleting  bool           `json:"deleting,omitempty"`
	MayFail   bool           `json:"mayFail,omitempty"` // may wait forever, for example for a card with its AFU
	Why       string         `json:"why,omitempty"`     // why it is waiting or has failed
}

// Claims is the name under which pods get devices through claims, and under which slices offer them.
const Claims = "claims"

// Container is a container in one of the soak's pods. It was found running, or it has ended. Among the lines of one
// sample, the lines of ended containers come first.
type Container struct {
	PID     int      `json:"pid"`
	Pod     string   `json:"pod"`
	UID     string   `json:"uid"`     // of the pod
	Started float64  `json:"started"` // seconds since the beginning of the run; the kernel counts in steps of 10 ms
	Nodes   []string `json:"nodes"`   // numbers of the device nodes of ports in its /dev: MAJOR:MINOR
	Rules   []string `json:"rules"`   // numbers that its cgroup allows it to open
	Ended   bool     `json:"ended,omitempty"`
	Seen    float64  `json:"seen,omitempty"` // if the container has ended: time of the last sample that found it running
}

// Port is the state of a port of the simulated hardware after a change. The line is written when the change is
// complete.
type Port struct {
	ID       string  `json:"id"`             // the daemon's ID for it: 01:00.0, 01:00.0-p1
	Since    float64 `json:"since"`          // when the change began
	Node     string  `json:"node,omitempty"` // number of its device node; "": its card is pulled
	AFU      string  `json:"afu,omitempty"`
	Broken   string  `json:"broken,omitempty"` // reason
	Cordoned bool    `json:"cordoned,omitempty"`
	Excluded bool    `json:"excluded,omitempty"` // by the settings
	Unsure   bool    `json:"unsure,omitempty"`   // it is being changed, or a change has failed, so it may be fit or not
}

// Offers maps each name to the IDs of the ports that it could give to a pod. These are the ports that the kubelet's
// device manager lists as healthy, or that have no taint in a slice. A line is written for the first sample, and for
// each sample that differs from the one before. If no sample could be read for a second, a line is written that
// contains the reason, and the next sample has a line again. If only the slices cannot be read, because the API server
// does not answer, each sample has a line with what the kubelet offers.
type Offers struct {
	Ports  map[string][]string `json:"ports,omitempty"`
	Seen   float64             `json:"seen,omitempty"`   // when reading the previous sample began
	Unread string              `json:"unread,omitempty"` // why no sample can be read; then Ports is unknown, or lacks the claims
	// Recorded lists, while claims are offered, the ports that the kubelet's checkpoint records for a container, which may
	// have ended long ago.
	Recorded []string `json:"recorded,omitempty"`
}

// Quiet describes what was found after a time without operations, when all faults had ended.
type Quiet struct {
	Since   float64            `json:"since"` // when the last operation had ended
	Agreed  bool               `json:"agreed"`
	Differ  []string           `json:"differ,omitempty"`      // what did not agree at the end of the time
	Left    []string           `json:"left,omitempty"`        // left behind: sockets, specs, claims, locks
	Waiting []string           `json:"waiting,omitempty"`     // pods that were waiting at the end of the time
	Memory  map[string]float64 `json:"memory,omitempty"`      // resident memory of each part, in MiB
	Files   map[string]int     `json:"descriptors,omitempty"` // open descriptors of each part
}

// Wrong is a violation.
type Wrong struct {
	Rule  string   `json:"rule"` // shared, unfit, renamed, unserved, lost, quiet, left, grown
	Text  string   `json:"text"`
	About []string `json:"about"` // pods, ports, node numbers, parts
}
