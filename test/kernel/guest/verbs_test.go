package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

func TestVerbs(t *testing.T) {
	got := slices.Concat(slices.Collect(maps.Keys(acts)), slices.Collect(maps.Keys(checks)))
	slices.Sort(got)
	if diff := cmp.Diff(story.Verbs(), got); diff != "" {
		t.Errorf("verbs that the guest executes (-want +got):\n%s", diff)
	}
}
