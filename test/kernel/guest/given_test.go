package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadSpecs(t *testing.T) {
	written, err := os.ReadFile("../../../cdi/testdata/fpga.intel.com-fpga.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, text string
		want       map[string][]string
		refused    string
	}{
		{"ours", string(written), map[string][]string{
			"3b:00.0": {"dfl-port.0", "dfl-port.1", "dfl-fme.0"}, "5e:00.0": {"dfl-port.2"},
		}, ""},
		{"another node of the host", `{"devices":[{"name":"a","containerEdits":{"deviceNodes":[{"path":"/dev/x","hostPath":"/dev/y"}]}}]}`, nil, "path: found /dev/x, want hostPath /dev/y"},
		{"half a file", `{"devices":[`, nil, "unexpected end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.json"), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readSpecs(dir)
			if tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)) {
				t.Errorf("got %v, want an error with %q", err, tc.refused)
			}
			if tc.refused == "" && err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
