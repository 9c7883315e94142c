package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The help of commands that ask the daemon has their own flags, without the settings that need --scan.
func TestHelpFlags(t *testing.T) {
	for command, want := range map[string]string{
		"devices":  "config help output overrides scan socket",
		"watch":    "config for help output overrides scan socket",
		"can-pull": "config help output overrides scan socket",
	} {
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs([]string{command, "--help"})
		root.SetOut(&out)
		must.Succeed(t, root.Execute())
		var flags []string
		for _, m := range regexp.MustCompile(`(?m)^ .*?--([a-z-]+) `).FindAllStringSubmatch(out.String()[strings.Index(out.String(), "\nFlags:"):], -1) {
			flags = append(flags, m[1])
		}
		compare.Equal(t, fmt.Sprintf("flags in the help of %s", command), want, strings.Join(flags, " "))
	}
}
