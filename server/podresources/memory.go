package podresources

import (
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// kubeletSettles is the time after its start in which a kubelet may not name all holders, because it
// first gets its pods from the API server.
const kubeletSettles = 10 * time.Second

// JustStarted reports whether the kubelet has created its socket within the last 10 s.
func JustStarted(socket string) bool {
	info, err := os.Stat(socket)
	if err != nil {
		return false
	}
	age := time.Since(info.ModTime()) // negative after the clock was set back
	return 0 <= age && age < kubeletSettles
}

// Memory keeps the holders of some devices while the answers of the kubelet may lack them.
//
// A kubelet that has just started answers at once. It has read from its files which pod holds which device, for
// resources (kubelet_internal_checkpoint) as for claims (dra_manager_state). But it lists only the pods that it knows,
// and it gets these from the API server: some seconds later, or never while the API server does not answer. It gets
// them all together. So an answer without the pod of this daemon lacks pods. If no answer has ever had this pod, as
// outside of Kubernetes, the answers of the first 10 s count as incomplete.
//
// The first answer counts as complete if it comes from a kubelet that has run for some time, or has the pod of this
// daemon: the kubelet that has started the daemon knows its pod. A Memory is safe for concurrent use.
type Memory struct {
	Keep func(Key) bool // reports whether the holders of a device are kept
	Pod  string         // name of the daemon's pod, which is its host name; not used if it is no pod's name

	mu   sync.Mutex
	seen bool             // an answer has had the pod
	last map[Key][]Holder // the newest holders that are kept
}

// Complete returns the holders of an answer, and those of former answers that it may lack. justStarted is the
// result of [JustStarted] before the request.
func (m *Memory) Complete(a Answer, justStarted bool) map[Key][]Holder {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := slices.ContainsFunc(a.Pods, m.isOwn)
	m.seen = m.seen || own
	all := a.Holders
	if complete := own || !m.seen && !justStarted; !complete {
		all = maps.Clone(all)
		for key, holders := range m.last {
			if len(all[key]) == 0 {
				all[key] = holders
			}
		}
	}
	m.last = maps.Clone(all)
	maps.DeleteFunc(m.last, func(key Key, _ []Holder) bool { return !m.Keep(key) })
	return all
}

// isOwn reports whether a pod has the name of this daemon's pod. The kubelet cuts host names after 63 characters, and
// then removes dots and dashes from the end.
func (m *Memory) isOwn(pod string) bool {
	const longest = 63
	if len(pod) > longest {
		pod = strings.TrimRight(pod[:longest], "-.")
	}
	return m.Pod != "" && pod == m.Pod
}
