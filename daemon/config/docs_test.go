package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The documentation has a row for every flag, with its default.
func TestDocumentation(t *testing.T) {
	text := must.Value(os.ReadFile("../../docs/configuration.md"))(t)
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.New(config.Vocabulary{}).AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		row := "| `--" + f.Name + "` | "
		if f.DefValue != "" {
			row += "`" + f.DefValue + "` |"
		}
		compare.Contains(t, "docs/configuration.md", row, string(text))
	})
}

// The documentation's example files are valid.
func TestDocumentedFiles(t *testing.T) {
	text := must.Value(os.ReadFile("../../docs/configuration.md"))(t)
	examples := strings.Split(string(text), "```yaml\n")[1:]
	adjust := []func(*config.Config){ // applied to the defaults
		func(c *config.Config) {
			c.ResyncInterval, c.ResourceName = 30*time.Second, "example.com/fpga"
			c.Exclude = map[string]bool{"3b:00.0": true, "0001:5e:00.0-p1": true}
			c.Severity = map[string]string{"port-mmio-timeout": "fatal", "power-throttled=1": "ignored"}
		},
		func(c *config.Config) {
			c.Mode = "af"
			c.Resources = []offer.Rule{
				{Resource: "example.com/lab", Match: offer.Match{PCIAddress: "3b:00.0"}},
				{Resource: "example.com/nlb", Match: offer.Match{PCIVendor: "8086", PCIDevice: "09c4", AFUID: nlb}},
			}
			// What `devices -o wide` says about the second rule.
			if idle := "no device is offered by rule 2 of resources: " + c.Resources[1].String() + "\n"; !strings.Contains(string(text), idle) {
				t.Errorf("docs/configuration.md: found no %q", idle)
			}
		},
	}
	if len(examples) != len(adjust)+1 {
		t.Fatalf("%d examples, want %d", len(examples), len(adjust)+1)
	}
	for i, rest := range examples[:len(adjust)] {
		example, _, _ := strings.Cut(rest, "```\n")
		got := must.Value(load(t, nil, nil, example))(t)
		want := config.Defaults()
		want.HostDevRoot, want.HostSysfsRoot = want.DevRoot, want.SysfsRoot
		adjust[i](&want)
		compare.Values(t, fmt.Sprintf("example %d: config", i+1), want, got)
	}
	example, _, _ := strings.Cut(examples[len(adjust)], "```\n")
	l := overridden(t, "worker-3", "", example)
	must.Succeed(t, l.Load(noVariables))
	compare.Values(t, "example of overrides: exclude", map[string]bool{"5e:00.0": true, "3b:00.0": true}, l.Config.Exclude)
	compare.Values(t, "example of overrides: severity", map[string]string{"power-throttled": "ignored"}, l.Config.Severity)
}
