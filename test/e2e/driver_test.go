package main

import (
	"context"
	"errors"
	"io/fs"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Stories have different names, which are valid in resources and as file names.
func TestStories(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range stories {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(s.name) || seen[s.name] || s.run == nil {
			t.Errorf("story %q: want another name of lower-case letters and dashes, and a function", s.name)
		}
		seen[s.name] = true
	}
	if got := choose(regexp.MustCompile("^kubelet$|^pool$")); len(got) != 2 || got[0].name != "kubelet" || got[1].name != "pool" {
		t.Errorf("chosen: %v", got)
	}
	for _, name := range apart {
		if !seen[name] {
			t.Errorf("story %q that runs apart: found none of this name, want one", name)
		}
	}
	if got := choose(regexp.MustCompile("")); len(got) != len(stories) {
		t.Errorf("%d stories match the empty pattern, want %d", len(got), len(stories))
	}
}

// A story ends at the first check that fails. Other panics are bugs in this program, and aren't recovered.
func TestTry(t *testing.T) {
	var s scene
	after := false
	err := s.try(func() {
		s.check(nil)
		s.check(fs.ErrNotExist)
		after = true
	})
	if !errors.Is(err, fs.ErrNotExist) || after {
		t.Errorf("error %v, continued after the failure: %t", err, after)
	}
	defer func() {
		if recover() == nil {
			t.Error("a panic of another type was recovered")
		}
	}()
	_ = s.try(func() { panic("bug") })
}

func TestRefused(t *testing.T) {
	var s scene
	for _, tt := range []struct {
		name string
		err  error
		want bool // whether the story continues
	}{
		{"wanted error", errors.New("mode: want single or pool"), true},
		{"another error", errors.New("no such host"), false},
		{"no error", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := s.try(func() { s.refused("action", tt.err, "want single", "pool") }); (err == nil) != tt.want {
				t.Error(err)
			}
		})
	}
}

// sample counts the samples and returns the longest gap.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answers := []int64{2, 1, 2, 0, 0, 1, 2, 2}
		i := 0
		got := sample(ctx, time.Second, 2, func() (int64, error) {
			if i == len(answers) {
				cancel()
				return 0, nil
			}
			i++
			return answers[i-1], nil
		})
		if diff := cmp.Diff(count{All: 8, Less: 4, Gap: 2 * time.Second}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
