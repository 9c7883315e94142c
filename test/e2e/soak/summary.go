package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Summary contains a run's figures. Times are in seconds.
type Summary struct {
	Lasted, Undisturbed float64
	Operations, Failed  map[string]int // by kind
	Faults              map[string]int // by kind and target
	Pods                int            // pods created
	Started             int            // pods that got what they requested
	Containers          int
	Changes             int // to the hardware
	Offers              int // samples that differed from the previous one
	Quiet               int // quiet times

	// LongestServe is the longest time from when a pod was created until it had its first container or was Running. It
	// includes time in which all ports were in use. LongestFree is the longest time that a pod waited even though
	// enough ports were free. The Calm fields count only undisturbed time, and may be about other pods.
	LongestServe, LongestCalmServe float64
	LongestFree, LongestCalmFree   float64

	Violations map[string]int // by rule
}

func newSummary() Summary {
	return Summary{Operations: map[string]int{}, Failed: map[string]int{}, Faults: map[string]int{}, Violations: map[string]int{}}
}

func (s *Summary) begin(op Op) {
	s.Operations[op.Kind]++
	if op.Disturbs {
		s.Faults[strings.TrimSpace(op.Kind+" "+op.Target)]++
	}
}

func (s *Summary) end(op Op, done Done) {
	if done.Error != "" {
		s.Failed[op.Kind]++
	}
}

func sum(counts map[string]int) (n int) {
	for count := range maps.Values(counts) {
		n += count
	}
	return n
}

// String formats the figures as lines for a terminal.
func (s Summary) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	line("lasted", "%s, %s of it undisturbed, %d quiet times", minutes(s.Lasted), minutes(s.Undisturbed), s.Quiet)
	line("operations", "%d: %s", sum(s.Operations), counts(s.Operations))
	if len(s.Failed) > 0 {
		line("refused", "%d: %s", sum(s.Failed), counts(s.Failed))
	}
	line("faults", "%d: %s", sum(s.Faults), counts(s.Faults))
	line("pods", "%d created, %d served, %d containers; %d changes of the hardware, %d of the offers", s.Pods, s.Started, s.Containers, s.Changes, s.Offers)
	line("served", "within %.1f s (undisturbed: %.1f s); while there were enough free ports within %.1f s (%.1f s)",
		s.LongestServe, s.LongestCalmServe, s.LongestFree, s.LongestCalmFree)
	if len(s.Violations) == 0 {
		line("violations", "none")
	} else {
		line("violations", "%d: %s", sum(s.Violations), counts(s.Violations))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// counts formats counts, largest first.
func counts(of map[string]int) string {
	var all []string
	for _, name := range slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		if of[a] != of[b] {
			return of[b] - of[a]
		}
		return strings.Compare(a, b)
	}) {
		all = append(all, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(all, ", ")
}

// minutes formats a number of seconds as minutes and seconds.
func minutes(seconds float64) string {
	return fmt.Sprintf("%d:%02d", int(seconds)/60, int(seconds)%60)
}
