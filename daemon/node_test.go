package daemon

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
)

func namesOf(families []inventory.Family) (names []string) {
	for _, f := range families {
		names = append(names, f.Name())
	}
	return names
}

// Only enabled families read cards and receive events. In pool mode, no other family does, whatever the setting.
func TestEnabledFamilies(t *testing.T) {
	for _, test := range []struct {
		name     string
		families []string
		nodes    []string // prefixes
	}{
		{"default", config.Defaults().Families, []string{"dfl-", "intel-fpga-"}},
		{"one", []string{"opae"}, []string{"intel-fpga-"}},
		{"all", namesOf(AllFamilies(config.Defaults())), nil},
	} {
		cfg := config.Defaults()
		cfg.Families = test.families
		for _, cfg.Mode = range offer.Modes() {
			want := test.families
			if cfg.Mode == offer.Pool {
				want = []string{"pool"}
			}
			compare.Values(t, fmt.Sprintf("%s, mode %s: families", test.name, cfg.Mode), want, namesOf(Families(cfg)))
			if got := signals(cfg).Nodes; test.nodes != nil && !cmp.Equal(test.nodes, got) {
				t.Errorf("%s, mode %s: nodes %q, want %q", test.name, cfg.Mode, got, test.nodes)
			}
		}
	}
}

// A severity or a rule can refer to a family that isn't enabled. Each such rule is logged.
func TestFamilyThatIsOff(t *testing.T) {
	f := newFiles(t, "families: [dfl]\nhealth: {severity: {fme-fatal: ignored}}\nresources:\n"+
		"- {name: a.com/x, match: {family: dfl}}\n- {name: a.com/y, match: {family: opae, vendor: 8086}}\n")
	loader := f.load()
	core, logs := eventtest.Observed(t)
	openSettings(loader, loader.Config, zap.New(core), metrics.New("test"))
	lines := logs.TakeAll()
	if len(lines) != 2 || lines[0].Message != "rule names a family that is not in --families" {
		t.Fatalf("log %v, want one notice and that settings were applied", lines)
	}
	want := map[string]any{"event": "config.notice", "flag": "families", "reason": "a.com/y for pciVendor=8086 family=opae"}
	compare.Values(t, "notice", want, lines[0].ContextMap())
}

// The daemon exits immediately if --sysfs-root is wrong.
func TestMissingSysfsRoot(t *testing.T) {
	cfg := config.Defaults()
	cfg.SysfsRoot = "/nonexistent"
	compare.Error(t, "OpenHost", `--sysfs-root "/nonexistent": found nothing`, compare.ErrorOf(OpenHost(cfg)))
}
