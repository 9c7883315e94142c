package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	by := func(name, device, pod string) held { return held{name: {device: pod}} }
	offering := func(o offers) glimpse { return glimpse{offers: o} }
	for name, tt := range map[string]struct {
		sample        glimpse
		before, after held
		want          []string
	}{
		"neither":              {},
		"one in each":          {sample: offering(offers{"r": {"a"}, draDriver: {"b"}})},
		"two names":            {sample: offering(offers{"r": {"a", "b"}, "s": {"b"}}), want: []string{"b is offered as r and as s"}},
		"both APIs":            {sample: offering(offers{"r": {"a"}, draDriver: {"a"}}), want: []string{"a is offered as accelerator.b-com.com and as r"}},
		"port and card":        {sample: offering(offers{"af": {"a-p1"}, region: {"a"}}), want: []string{"a-p1 is offered as af and as " + region}},
		"port and other card":  {sample: offering(offers{"af": {"a-p1"}, region: {"b"}})},
		"both forms of slices": {sample: offering(offers{draDriver: {"a-p1"}, wholeCards: {"a"}}), want: []string{"a-p1 is offered as accelerator.b-com.com and as " + wholeCards}},
		"held under its name":  {sample: offering(offers{"r": {"a"}}), before: by("r", "a", "p"), after: by("r", "a", "p")},
		"held as a card":       {sample: offering(offers{wholeCards: {"a"}}), before: by(draDriver, "a", "p"), after: by(draDriver, "a", "p")},
		"held under another name": {
			sample: offering(offers{"s": {"a"}}), before: by("r", "a", "p"), after: by("r", "a", "p"),
			want: []string{"a is offered as s, and pod p holds it as r"},
		},
		"its card is held": {
			sample: offering(offers{"af": {"a", "a-p1"}}), before: by(region, "a", "p"), after: by(region, "a", "p"),
			want: []string{"a is offered as af, and pod p holds it as " + region, "a-p1 is offered as af, and pod p holds it as " + region},
		},
		"given up between":    {sample: offering(offers{"s": {"a"}}), before: by("r", "a", "p")},
		"taken between":       {sample: offering(offers{"s": {"a"}}), after: by("r", "a", "p")},
		"another pod between": {sample: offering(offers{"s": {"a"}}), before: by("r", "a", "p"), after: by("r", "a", "q")},
		"held twice": {
			after: held{"r": {"a": "p"}, "s": {"a": "q"}},
			want:  []string{"a is held by pod p as r, and by pod q as s"},
		},
		"a node in one pod": {sample: glimpse{nodes: map[string][]string{"120:0": {"p"}, "120:1": {"p"}}}},
		"a node in two pods": {
			sample: glimpse{nodes: map[string][]string{"120:0": {"p", "q"}}},
			want:   []string{"device node 120:0 is inside of the pods p, q"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, judge(tt.sample, tt.before, tt.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Each letter is a sample, one second after the previous one. o: offered. h: held and offered. x: held and not offered.
// n: held, but only the device node shows it. A space: away.
func TestAbsences(t *testing.T) {
	for name, tt := range map[string]struct {
		samples     string
		free, after longest
		wrong       int
	}{
		"never":                    {"oohho", longest{}, longest{}, 0},
		"not offered at first":     {"   oo", longest{}, longest{}, 0},
		"free and away":            {"o o  o", longest{2, 3 * time.Second}, longest{}, 1},
		"held under a former name": {"ohxxxx oo", longest{}, longest{1, 2 * time.Second}, 0},
		"of an init container":     {"onnnn  oo", longest{}, longest{1, 3 * time.Second}, 0},
		"held for too long":        {"ox" + "                " + "o", longest{}, longest{1, 17 * time.Second}, 1},
		"held shortly before":      {"oho    o", longest{1, 5 * time.Second}, longest{}, 0},
		"never back":               {"oo   ", longest{}, longest{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := absences{ports: map[string]string{"120:0": "p"}}
			wrong := 0
			for i, c := range tt.samples {
				sample, before := glimpse{at: time.Unix(int64(1000+i), 0)}, held{}
				if c == 'o' || c == 'h' {
					sample.offers = offers{"r": {"p"}}
				}
				if c == 'h' || c == 'x' {
					before = held{"r": {"p": "pod"}}
				}
				if c == 'n' {
					sample.nodes = map[string][]string{"120:0": {"pod"}}
				}
				wrong += len(a.note(sample, before, 2*time.Second))
			}
			if diff := cmp.Diff([]any{tt.free, tt.after, tt.wrong}, []any{a.free, a.after, wrong}, cmp.AllowUnexported(longest{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
