package holders

import (
	"maps"
	"strings"
)

// listen updates s with what the kubelet's answer says about the kubelet itself. complete reports whether the answer is
// complete. own reports whether it lists the daemon's own pod, or doesn't have to.
func (s *State) listen(before State, r Report) (complete, own bool) {
	if r.KubeletErr != nil {
		return false, false
	}
	pods := make(map[string]bool, len(r.Answer.Pods))
	remote := false
	for _, pod := range r.Answer.Pods {
		pods[pod] = true
		_, name, _ := strings.Cut(pod, "/")
		own = own || s.rules.isOwn(name)
		remote = remote || !s.rules.isStatic(name)
	}
	if !r.Answer.Started.Equal(before.started) {
		s.started, s.former = r.Answer.Started, map[string]bool{}
		// From now on, only the monotonic clock counts, because the wall clock may be adjusted while the kubelet
		// starts.
		s.appeared = r.Answered.Add(-max(r.Answered.Sub(s.started), 0))
		if longAgo := r.Asked.Add(-settles); s.appeared.Before(longAgo) {
			s.appeared = longAgo
		}
		s.returned = s.appeared
		maps.Copy(s.former, before.pods)
		maps.Copy(s.former, before.former) // in case the kubelet was restarted twice
		s.away = before.away || before.remote
	} else {
		s.former = maps.Clone(before.former)
	}
	was := len(s.former)
	maps.DeleteFunc(s.former, func(pod string, _ bool) bool { return pods[pod] })
	if len(s.former) < was {
		s.returned = r.Asked
	}
	s.pods, s.ownListed, s.remote, s.away = pods, s.ownListed || own, remote, s.away && !remote
	settled := r.Asked.Sub(s.returned) >= settles
	allBack := s.whole && was > 0 && len(s.former) == 0
	own = own || !s.ownListed && !s.rules.ownExpected()
	if complete = (settled || allBack) && own && !s.away; complete {
		s.former, s.whole = nil, true
	}
	return complete, own
}

// isOwn reports whether a pod has the same name as this daemon's pod and isn't static. Static pods don't count, because
// a kubelet lists them as soon as it starts, when it doesn't know its other pods yet. The daemon recognizes its pod by
// its own host name, which the kubelet truncates to 63 characters and then strips of trailing dots and dashes.
func (r Rules) isOwn(pod string) bool {
	const longest = 63
	if r.isStatic(pod) {
		return false
	}
	if len(pod) > longest {
		pod = strings.TrimRight(pod[:longest], "-.")
	}
	return r.Pod != "" && pod == r.Pod
}

// ownExpected reports whether isOwn can be expected to find this daemon's pod once the kubelet knows all its pods.
func (r Rules) ownExpected() bool { return r.InPod && r.Pod != r.Node && !r.isStatic(r.Pod) }

func (r Rules) isStatic(pod string) bool { return r.Node != "" && strings.HasSuffix(pod, "-"+r.Node) }
