package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/config"
)

// excluded is the one form of an address that may come out.
var excluded = regexp.MustCompile(`^(([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7](-p[0-3])?$`)

// A file is whatever somebody wrote: it is taken or refused, and what is taken
// stays within what flags would allow. Read again it says the same.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"resyncInterval: 60s\nflapLimit: 3\n",
		"a: &a\n  b: *a\n",
		"? [x]\n: y\n",
		"mode: !!binary aGk=\n",
		"exclude: [3b:00.0, 0000:3B:00.0-P1, 10000:01:00.0]\nhealth: {severity: {afu-dead: ignored}}\n",
		"exclude:\n- 3b:00.0\n- 3b:00.0-p0\n- &a 0001:5e:1f.7-p3\n",
		"exclude: []\nhealth: {severity: {}}\n",
		"exclude: &l [*l, {}, ~, \"\"]\n",
		"exclude: !!set {3b:00.0: ~}\n",
		"health: &h\n  severity: *h\n",
		"health:\n  severity:\n    power-throttled: fatal\n    power-throttled=1: degraded\n    power-throttled=3: x\n",
		"logLevel: &l fatal\nhealth: {severity: {afu-dead: *l}}\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		l := config.New(vocabulary)
		l.Config.File = path
		if err := l.Load(noVariables); err != nil {
			return
		}
		c := l.Config
		if c.ResyncInterval < 50*time.Millisecond || c.RecoveryHold < 0 || c.AccelNbUnits < 1 || c.SysfsRoot == "" {
			t.Errorf("accepted: %+v", c)
		}
		for address, out := range c.Exclude {
			if !out || !excluded.MatchString(address) || strings.HasPrefix(address, "0000:") {
				t.Errorf("excluded: %q, %v", address, out)
			}
		}
		for reason, severity := range c.Severity {
			if !slices.Contains([]string{"fatal", "degraded", "ignored"}, severity) ||
				!slices.ContainsFunc(rows, func(row string) bool { return row == reason || strings.HasPrefix(row, reason+"=") }) {
				t.Errorf("severity of %q: %q", reason, severity)
			}
		}
		again, others, err := l.Again(noVariables)
		if diff := cmp.Diff(c, again); err != nil || others != nil || diff != "" {
			t.Errorf("again: others %q, error %v, config (-first +again):\n%s", others, err, diff)
		}
	})
}

func noVariables(string) (string, bool) { return "", false }
