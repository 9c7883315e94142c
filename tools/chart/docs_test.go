package chart_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/doccmd"
)

// The flags of each helm in the documents exist, and its chart has the values that the command line sets.
func TestDocumentedHelm(t *testing.T) {
	commands := doccmd.Commands(t, "../..", "helm")
	for _, flag := range []string{"--set", "--set-string", "--set-json"} { // without helm: "with `--set api=dra`"
		for _, c := range doccmd.Commands(t, "../..", flag) {
			c.Args = append([]string{"upgrade", "NAME", "CHART", flag}, append(c.Args, "")...)
			commands = append(commands, c)
		}
	}
	if len(commands) < 100 {
		t.Errorf("found %d commands, want 100 or more", len(commands))
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	tried := map[string]bool{}
	for _, c := range commands {
		line := strings.Join(c.Args, " ")
		if tried[line] {
			continue
		}
		tried[line] = true
		if _, err := helm(append(slices.Clone(c.Args), "--help")...); err != nil {
			t.Errorf("%s: %v", c, err)
		}
		var values []string
		for i, arg := range c.Args {
			switch arg {
			case "--set", "--set-string", "--set-json":
				values = append(values, arg, c.Args[i+1])
			case "--set-file":
				key, _, _ := strings.Cut(c.Args[i+1], "=")
				values = append(values, arg, key+"="+file)
			}
		}
		if values == nil {
			continue
		}
		of := plugin
		if page := filepath.Base(c.Page); page == "operator.md" || page == "mappings.md" || strings.Contains(line, "accelerator-operator") {
			of = operator
		}
		// In a sentence, a value can be a placeholder, and need others.
		if _, err := of.render(t, "", values...); err != nil && (c.Whole || strings.Contains(err.Error(), "additional properties")) {
			t.Errorf("%s: %v", c, err)
		}
	}
}
