package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// write creates a file with this content and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	rewrite(t, path, content)
	return path
}

func rewrite(t *testing.T, path, content string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
}

// start loads a configuration the way the daemon does. The command also has a flag of its own.
func start(t *testing.T, lookup func(string) (string, bool), flags ...string) *config.Loader {
	t.Helper()
	l := config.New(vocabulary)
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.String("output", "", "one that is no setting")
	l.AddFlags(set)
	must.Succeed(t, set.Parse(flags))
	must.Succeed(t, l.Load(lookup))
	return l
}

func TestReload(t *testing.T) {
	const policy = "exclude: [3b:00.0]\nhealth: {severity: {afu-dead: fatal}}\n"
	const before = policy + "flapLimit: 3\nresources: [{name: a.com/x, match: {pciVendor: 10ee}}]\n"
	for _, test := range []struct {
		name   string
		flags  []string
		after  string
		adjust func(*config.Config) // changes the initial configuration to the expected one
		others []string
	}{
		{"nothing changed", nil, before, func(*config.Config) {}, nil},
		{"policy changed", nil, "exclude: [5e:00.0-p1]\nflapLimit: 3\nhealth: {severity: {power-throttled=1: ignored}}\nresources: [{name: c.com/x, match: {pciVendor: 10ee}}]\n",
			func(c *config.Config) {
				c.Exclude, c.Severity = map[string]bool{"5e:00.0-p1": true}, map[string]string{"power-throttled=1": "ignored"}
				c.Resources = []offer.Rule{{Resource: "c.com/x", Match: offer.Match{PCIVendor: "10ee"}}}
			}, nil},
		{"policy taken out", nil, "flapLimit: 3\n", func(c *config.Config) { c.Exclude, c.Severity, c.Resources = nil, nil, nil }, nil},
		{"others changed", nil, "resyncInterval: 7s\nflapLimit: 4\nmode: pool\n" + policy,
			func(c *config.Config) {
				c.ResyncInterval, c.FlapLimit, c.Mode, c.Resources = 7*time.Second, 4, "pool", nil
			},
			[]string{"flap-limit", "mode", "resync-interval"}},
		{"sensors changed", nil, before + "sensors: all\nsensorInterval: 60s\n",
			func(c *config.Config) { c.Sensors, c.SensorInterval = "all", time.Minute }, nil},
		{"families changed", nil, before + "families: [opae, vfio]\nvfioCdev: true\n",
			func(c *config.Config) { c.Families, c.VFIOCdev = []string{"opae", "vfio"}, true }, []string{"families", "vfio-cdev"}},
		{"hook changed", []string{"--cdi-dir=/c", "--programming-hook=/h", "--programming-hook-arg=--a", "--programming-hook-arg=--b"},
			before + "programmingHookArgs: [--c]\n", func(*config.Config) {}, nil},
		{"hook comes", nil, before + "cdiDir: /c\nprogrammingHook: /h\nprogrammingHookArgs: [--a, --b]\n",
			func(c *config.Config) {
				c.CDIDir, c.ProgrammingHook, c.ProgrammingHookArgs = "/c", "/h", []string{"--a", "--b"}
			},
			[]string{"cdi-dir", "programming-hook", "programming-hook-arg"}},
		{"all gone", nil, "", func(c *config.Config) { c.Exclude, c.Severity, c.Resources, c.FlapLimit = nil, nil, nil, 5 }, []string{"flap-limit"}},
		{"flag wins", []string{"--flap-limit=9", "--resync-interval=90s"}, "flapLimit: 4\nresyncInterval: 7s\n" + "exclude: [5e:00.0]\n",
			func(c *config.Config) {
				c.Exclude, c.Severity, c.Resources = map[string]bool{"5e:00.0": true}, nil, nil
			}, nil},
		{"root, and the default that depends on it", nil, before + "devRoot: /other\n",
			func(c *config.Config) { c.DevRoot, c.HostDevRoot = "/other", "/other" }, []string{"dev-root", "host-dev-root"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, before)
			l := start(t, noVariables, append(test.flags, "--config", path)...)
			first := l.Config
			rewrite(t, path, test.after)
			got, others, err := l.Reload(l.Read())
			must.Succeed(t, err)
			want := first
			test.adjust(&want)
			compare.Values(t, "config", want, got)
			compare.Values(t, "others", test.others, others)
			compare.Values(t, "the loader's own config changed", first, l.Config)
		})
	}
}

// An invalid file is rejected on every reload until it is corrected, just like at startup.
func TestReloadRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  string // substring of the error
	}{
		{"gone", func(t *testing.T, path string) { remove(t, path) }, "config.yaml"},
		{"directory", func(t *testing.T, path string) {
			remove(t, path)
			must.Succeed(t, os.Mkdir(path, 0o700))
		}, "want a regular file"},
		{"no YAML", func(t *testing.T, path string) { rewrite(t, path, "exclude: [\n") }, "not YAML"},
		{"bad address", func(t *testing.T, path string) { rewrite(t, path, "exclude:\n- 3b:00.0\n- x\n") }, `config.yaml:3: exclude: found "x"`},
		{"bad rule", func(t *testing.T, path string) {
			rewrite(t, path, "exclude: [3b:00.0]\nresources:\n- {name: a.com/x, match: {family: dfl}}\n- {name: nlb, match: {family: opae}}\n")
		}, `config.yaml:4: resources.name: found "nlb"`},
		{"bad setting that a flag overrides", func(t *testing.T, path string) { rewrite(t, path, "mode: zen\n") }, `config.yaml:1: mode: found "zen"`},
		{"path too long", func(t *testing.T, path string) { rewrite(t, path, "kubeletDir: /"+strings.Repeat("k", 76)+"\n") }, "kubelet-dir"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, "exclude: [3b:00.0]\n")
			l := start(t, noVariables, "--config="+path, "--mode=single")
			first := l.Config
			test.spoil(t, path)
			for range 2 {
				got, others, err := l.Reload(l.Read())
				compare.Error(t, "error", test.want, err)
				compare.Equal(t, "the file is gone", test.name == "gone", errors.Is(err, fs.ErrNotExist))
				if diff := cmp.Diff(config.Config{}, got); diff != "" || others != nil {
					t.Errorf("others %q, config (-want +got):\n%s", others, diff)
				}
			}
			compare.Values(t, "the loader's own config changed", first, l.Config)
			must.Succeed(t, os.RemoveAll(path))
			rewrite(t, path, "exclude: [3b:00.0]\n")
			if got, _, err := l.Reload(l.Read()); err != nil || !cmp.Equal(first, got) {
				t.Errorf("mended: error %v, config (-want +got):\n%s", err, cmp.Diff(first, got))
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	must.Succeed(t, os.Remove(path))
}

// Variables rank between flags and the file, and one of them can set the file's path.
func TestReloadVariables(t *testing.T) {
	path := write(t, "flapLimit: 3\n")
	variables := map[string]string{"ACCELERATOR_CONFIG": path, "ACCELERATOR_RECOVERY_HOLD": "3s", "ACCELERATOR_FLAP_WINDOW": "2s"}
	lookup := func(name string) (string, bool) { v, ok := variables[name]; return v, ok }
	l := start(t, lookup, "--flap-window=1s")
	rewrite(t, path, "flapLimit: 4\nrecoveryHold: 9s\nflapWindow: 9s\nexclude: [3b:00.0]\n")
	want := l.Config
	want.FlapLimit, want.Exclude = 4, map[string]bool{"3b:00.0": true}
	got, others, err := l.Reload(l.Read())
	must.Succeed(t, err)
	compare.Values(t, "config", want, got)
	compare.Values(t, "others", []string{"flap-limit"}, others)
}
