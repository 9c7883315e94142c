package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	claim := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	sample := func(list, slices deviceNames) both { return both{list: list, slices: slices} }
	for name, tt := range map[string]struct {
		sample        both
		before, after held
		want          []string
	}{
		"neither":             {},
		"one in each":         {sample: sample(deviceNames{"a"}, deviceNames{"b"})},
		"in both":             {sample: sample(deviceNames{"a", "b"}, deviceNames{"b"}), want: []string{"b is in the list and in a slice"}},
		"in both, and held":   {sample: sample(deviceNames{"a"}, deviceNames{"a"}), after: held{byClaim: claim("a", "p")}, want: []string{"a is in the list and in a slice"}},
		"held in its own API": {sample: sample(deviceNames{"a"}, nil), before: held{byResource: claim("a", "p")}, after: held{byResource: claim("a", "p")}},
		"held by a resource": {
			sample: sample(nil, deviceNames{"a"}), before: held{byResource: claim("a", "p")}, after: held{byResource: claim("a", "p")},
			want: []string{"a is in a slice without a taint, and pod p holds it through a resource"},
		},
		"held by a claim": {
			sample: sample(deviceNames{"a"}, nil), before: held{byClaim: claim("a", "p")}, after: held{byClaim: claim("a", "p")},
			want: []string{"a is in the list, healthy, and pod p holds it through a claim"},
		},
		"given up between":    {sample: sample(deviceNames{"a"}, nil), before: held{byClaim: claim("a", "p")}},
		"taken between":       {sample: sample(deviceNames{"a"}, nil), after: held{byClaim: claim("a", "p")}},
		"another pod between": {sample: sample(deviceNames{"a"}, nil), before: held{byClaim: claim("a", "p")}, after: held{byClaim: claim("a", "q")}},
		"held twice": {
			after: held{byClaim: claim("a", "p"), byResource: claim("a", "q")},
			want:  []string{"a is held by pod q through a resource, and by pod p through a claim"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, judge(tt.sample, tt.before, tt.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
