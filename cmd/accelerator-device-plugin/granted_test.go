package main

import (
	"bytes"
	"testing"
)

func TestGranted(t *testing.T) {
	for ids, want := range map[string]string{"": "", "3b:00.0,3b:00.0-p1": "devices 3b:00.0,3b:00.0-p1\n"} {
		t.Setenv("ACCELERATOR_DEVICES", ids)
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"granted"}, &stdout, &stderr)
		if got := stdout.String(); got != want || (code == 0) != (ids != "") {
			t.Errorf("devices %q: exit code %d, output %q, want %q; stderr %q", ids, code, got, want, stderr.String())
		}
	}
}
