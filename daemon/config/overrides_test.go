package config_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// overridden returns a loader for a node with these two files. The caller calls Load.
func overridden(t *testing.T, node, file, overrides string) *config.Loader {
	t.Helper()
	l := config.New(vocabulary)
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	l.AddFlags(flags)
	path := write(t, file)
	over := filepath.Join(filepath.Dir(path), "overrides.yaml")
	rewrite(t, over, overrides)
	must.Succeed(t, flags.Parse([]string{"--config=" + path, "--overrides=" + over, "--node-name=" + node}))
	return l
}

func TestOverrides(t *testing.T) {
	const file = `exclude: [3b:00.0]
health: {severity: {afu-dead: fatal, power-throttled: degraded}}
resources:
- {name: a.com/config, match: {family: dfl}}
- {name: a.com/config, match: {family: opae}}
`
	rule := func(name, family string) offer.Rule {
		return offer.Rule{Resource: name, Match: offer.Match{Family: family}}
	}
	below := []offer.Rule{rule("a.com/config", "dfl"), rule("a.com/config", "opae")}
	for _, test := range []struct {
		name, node, overrides string
		exclude               map[string]bool
		severity              map[string]string
		resources             []offer.Rule
		unused                bool
	}{
		{"empty", "n1", "",
			map[string]bool{"3b:00.0": true}, map[string]string{"afu-dead": "fatal", "power-throttled": "degraded"}, below, false},
		{"keys without values", "n1", "exclude:\nhealth:\nresources:\nnodes:\n",
			map[string]bool{"3b:00.0": true}, map[string]string{"afu-dead": "fatal", "power-throttled": "degraded"}, below, false},
		{"for all nodes", "n1", "exclude: [5e:00.0-p1, 3b:00.0]\nhealth: {severity: {afu-dead: ignored, power-throttled=1: fatal}}\n" +
			"resources: [{name: a.com/over, match: {family: opae}}]\n",
			map[string]bool{"3b:00.0": true, "5e:00.0-p1": true},
			map[string]string{"afu-dead": "ignored", "power-throttled": "degraded", "power-throttled=1": "fatal"},
			[]offer.Rule{rule("a.com/over", "opae"), rule("a.com/config", "dfl")}, false},
		{"for this node", "n1", "exclude: [5e:00.0]\nhealth: {severity: {afu-dead: ignored}}\nresources: [{name: a.com/over, match: {family: opae}}]\n" +
			"nodes:\n  n1:\n    exclude: [6e:00.0]\n    health: {severity: {afu-dead: degraded}}\n    resources: [{name: a.com/node, match: {family: dfl}}]\n" +
			"  n2: {exclude: [7e:00.0]}\n",
			map[string]bool{"3b:00.0": true, "5e:00.0": true, "6e:00.0": true},
			map[string]string{"afu-dead": "degraded", "power-throttled": "degraded"},
			[]offer.Rule{rule("a.com/node", "dfl"), rule("a.com/over", "opae")}, false},
		{"for other nodes", "n1", "nodes: {n2: &n {exclude: [7e:00.0]}, n3.example.com: *n, n4: }\n",
			map[string]bool{"3b:00.0": true}, map[string]string{"afu-dead": "fatal", "power-throttled": "degraded"}, below, false},
		{"without the name of the node", "", "exclude: [5e:00.0]\nnodes: {n2: {exclude: [7e:00.0]}}\n",
			map[string]bool{"3b:00.0": true, "5e:00.0": true}, map[string]string{"afu-dead": "fatal", "power-throttled": "degraded"}, below, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := overridden(t, test.node, file, test.overrides)
			must.Succeed(t, l.Load(noVariables))
			want := config.Config{Exclude: test.exclude, Severity: test.severity, Resources: test.resources, NodesUnused: test.unused}
			got := config.Config{Exclude: l.Config.Exclude, Severity: l.Config.Severity, Resources: l.Config.Resources, NodesUnused: l.Config.NodesUnused}
			compare.Values(t, "config", want, got)
		})
	}
}

// Invalid overrides are rejected just like an invalid configuration, with the line. Other nodes' entries are checked
// too.
func TestOverridesRefused(t *testing.T) {
	for _, test := range []struct{ name, overrides, want string }{
		{"no address", "exclude:\n- x\n", `overrides.yaml:2: exclude: found "x", want the PCI address`},
		{"no mapping of nodes", "nodes: [n1]\n", "overrides.yaml:1: nodes: found a list, want a mapping from names of nodes"},
		{"no name of a node", "nodes:\n  N1: {}\n", `overrides.yaml:2: nodes: found "N1", want the name of a node`},
		{"another node's address", "nodes:\n  n2:\n    exclude:\n    - x\n", `overrides.yaml:4: nodes.n2.exclude: found "x", want the PCI address`},
		{"a node's nodes", "nodes: {n1: {nodes: {}}}\n", `overrides.yaml:1: nodes.n1: found the key "nodes", want one of exclude, health, resources`},
		{"a node twice", "nodes:\n  n2:\n  n2:\n", "overrides.yaml:3: nodes.n2: found twice, first on line 2"},
		{"too long", strings.Repeat("#", 256<<10+1), "overrides.yaml: found more than 262144 bytes"},
		{"many errors", "exclude: [" + strings.Repeat("x, ", 100) + "]\n", "overrides.yaml: and 80 more errors"},
		{"a long value", "exclude: [" + strings.Repeat("x", 100_000) + "]\n", "x…"},
		{"an alias of itself", "nodes: &n {n1: *n}\n", "found more than 100000 values"},
		{"too many values", "nodes:\n  a: &a {exclude: ['01:00.0', '02:00.0', '03:00.0', '04:00.0', '05:00.0', '06:00.0', '07:00.0', '08:00.0']}\n" + nodes(12_000, "*a"),
			"found more than 100000 values (each use of an alias counts), want at most 100000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := overridden(t, "n1", "", test.overrides).Load(noVariables)
			compare.Error(t, "error", test.want, err)
			if n := strings.Count(err.Error(), "\n"); n > 20 || len(err.Error()) > 10_000 {
				t.Errorf("error of %d lines and %d bytes, want 21 and 10000 at most", n+1, len(err.Error()))
			}
		})
	}
}

// nodes returns entries for n nodes.
func nodes(n int, entry string) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "  n%d: %s\n", i, entry)
	}
	return all.String()
}

// The overrides file can be created and removed while the daemon is running.
func TestReloadOverrides(t *testing.T) {
	l := overridden(t, "n1", "exclude: [3b:00.0]\n", "nodes: {n1: {exclude: [5e:00.0]}}\n")
	must.Succeed(t, l.Load(noVariables))
	first := l.Files
	for _, test := range []struct {
		name, file, overrides string // overrides "missing": there is no file
		want                  map[string]bool
		restart               []string
		same                  bool
	}{
		{"nothing changed", "exclude: [3b:00.0]\n", "nodes: {n1: {exclude: [5e:00.0]}}\n",
			map[string]bool{"3b:00.0": true, "5e:00.0": true}, nil, true},
		{"another node", "exclude: [3b:00.0]\n", "nodes: {n2: {exclude: [5e:00.0]}}\n", map[string]bool{"3b:00.0": true}, nil, false},
		{"missing", "exclude: [3b:00.0]\n", "missing", map[string]bool{"3b:00.0": true}, nil, false},
		{"empty", "exclude: [3b:00.0]\n", "", map[string]bool{"3b:00.0": true}, nil, false},
		{"back", "exclude: [3b:00.0]\n", "nodes: {n1: {exclude: [5e:00.0]}}\n",
			map[string]bool{"3b:00.0": true, "5e:00.0": true}, nil, true},
		{"other settings", "flapLimit: 4\n", "exclude: [6e:00.0]\n", map[string]bool{"6e:00.0": true}, []string{"flap-limit"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			rewrite(t, l.Config.File, test.file)
			if test.overrides == "missing" {
				remove(t, l.Config.Overrides)
			} else {
				rewrite(t, l.Config.Overrides, test.overrides)
			}
			files := l.Read()
			got, restart, err := l.Reload(files)
			must.Succeed(t, err)
			compare.Values(t, "exclude", test.want, got.Exclude)
			compare.Values(t, "restart", test.restart, restart)
			compare.Equal(t, "equal to the first files", test.same, files.Equal(first))
			sum := fmt.Sprintf("%x", sha256.Sum256([]byte(test.file+strings.TrimPrefix(test.overrides, "missing"))))[:12]
			compare.Equal(t, "hash", sum, files.Hash())
		})
	}
}

// A new node name takes effect only after a restart. Until then, the old node name's overrides apply.
func TestReloadOverridesOfTheRunningNode(t *testing.T) {
	path := write(t, "nodeName: n1\n")
	overrides := filepath.Join(filepath.Dir(path), "overrides.yaml")
	rewrite(t, overrides, "nodes: {n1: {exclude: [3b:00.0]}, n2: {exclude: [5e:00.0]}}\n")
	l := start(t, noVariables, "--config="+path, "--overrides="+overrides)
	rewrite(t, path, "nodeName: n2\n")
	got, restart, err := l.Reload(l.Read())
	must.Succeed(t, err)
	compare.Values(t, "exclude", map[string]bool{"3b:00.0": true}, got.Exclude)
	compare.Values(t, "restart", []string{"node-name"}, restart)
}

// Files with the same read error are equal. Files with different errors aren't.
func TestFilesWithErrors(t *testing.T) {
	l := overridden(t, "n1", "", "")
	must.Succeed(t, l.Load(noVariables))
	remove(t, l.Config.File)
	gone := l.Read()
	if again := l.Read(); !gone.Equal(again) || gone.Equal(l.Files) {
		t.Errorf("gone: equal to the same %v, to the first %v; want true, false", gone.Equal(again), gone.Equal(l.Files))
	}
	must.Succeed(t, os.Mkdir(l.Config.File, 0o700))
	if gone.Equal(l.Read()) {
		t.Error("a directory is the same as no file")
	}
}

func TestHashWithoutFiles(t *testing.T) {
	l := config.New(vocabulary)
	l.Config.Overrides = filepath.Join(t.TempDir(), "missing")
	if err := l.Load(noVariables); err != nil || l.Files.Hash() != "" || !l.HasFiles() {
		t.Errorf("error %v, hash %q, follows %v; want none, none, true", err, l.Files.Hash(), l.HasFiles())
	}
}

// FuzzOverrides checks that accepted overrides meet the same rules as a valid configuration, and that parsing is fast.
func FuzzOverrides(f *testing.F) {
	for _, seed := range []string{
		"exclude: [3b:00.0]\nnodes:\n  n1: {exclude: [0000:5E:00.0-P1]}\n  n2: {}\n",
		"nodes: &n {n1: *n}\n",
		"nodes: {n1: &a {health: {severity: {power-throttled=1: fatal}}}, n2: *a}\n",
		"resources: &r [{name: a.com/x, match: {family: dfl}}]\nnodes: {n1: {resources: *r}}\n",
		"nodes:\n  ? [n1]\n  : {}\n  <<: {n1: {}}\n",
		"nodes: ~\nexclude: ~\n",
		"nodes: {N1: {exclude: [x]}, n..1: , 1: {exclude: [1:0.0]}}\n",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content string) {
		path := filepath.Join(t.TempDir(), "f")
		rewrite(t, path, content)
		below := filepath.Join(dir, "config.yaml")
		must.Succeed(t, os.WriteFile(below, []byte("exclude: [9f:00.0]\nnodeName: n1\n"), 0o600))
		l := config.New(vocabulary)
		l.Config.File, l.Config.Overrides = below, path
		began := time.Now()
		err := l.Load(noVariables)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %s", took)
		}
		if err != nil {
			if !strings.Contains(err.Error(), path) || strings.Count(err.Error(), path) > 21 {
				t.Errorf("error without its file, or too long: %v", err)
			}
			return
		}
		if !l.Config.Exclude["9f:00.0"] {
			t.Errorf("excluded by the configuration, and no longer: %v", l.Config.Exclude)
		}
		for address, out := range l.Config.Exclude {
			if !out || !excluded.MatchString(address) {
				t.Errorf("excluded: %q, %v", address, out)
			}
		}
		checkRules(t, l.Config.Resources)
	})
}
