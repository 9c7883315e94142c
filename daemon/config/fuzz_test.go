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

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/offer/names"
	"b-com.com/accelerator-device-plugin/test/must"
)

// excluded matches addresses as they are stored in Config.Exclude.
var excluded = regexp.MustCompile(`^(([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7](-p[0-3])?$`)

// The values in a rule have the same form as the devices' own values, or are "" to match any device.
var (
	fourDigits  = regexp.MustCompile(`^([0-9a-f]{4})?$`)
	twoIDs      = regexp.MustCompile(`^([0-9a-f]{4}:[0-9a-f]{4})?$`)
	index       = regexp.MustCompile(`^(0|[1-9][0-9]{0,4})?$`)
	id          = regexp.MustCompile(`^([0-9a-f]{32})?$`)
	cardAddress = regexp.MustCompile(`^((([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7])?$`)
)

// Any file is either accepted or rejected. An accepted file contains only values that flags also allow, and gives the
// same result when it is read again.
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
		"resources:\n- name: example.com/nlb\n  match: {afuId: D8424DC4-a4a3-c413-f89e-433683f9040b, interfaceId: 69528db6eb31577a8c3668f9faa081f6}\n",
		"resources:\n- {name: a.com/x, match: {pciVendor: 0x10, pciDevice: 1e10}}\n- {name: a.com/y, match: {pciVendor: 8086, pciDevice: '09C4'}}\n",
		"resources: [{name: a.com/x, match: {pciAddress: 0000:3B:00.0, family: opae}}, {name: a.com/x, match: {family: dfl}}]\n",
		"resources:\n- &r {name: a.com/x, match: &m {family: &f dfl}}\n- *r\n- {name: a.com/x, match: *m}\n",
		"resources: [{name: a.com/x, match: {pciAddress: 3b:00.0-p1}}, {match: {}}, ~, {? []: 1}]\n",
		"families: [vfio, dfl]\nvfioCdev: true\n",
		"families: vfio, dfl\nresources: [{name: a.com/x, match: {vendor: 10EE, device: 5005, subsystem: 10ee:000E}}]\n",
		"families: &f [&d dfl, *d, *f, '', ~]\n",
		"resources: [{name: a.com/x, match: {physicalFunction: 0000:3B:00.0, virtualFunction: +007}}, {name: a.com/x, match: {vendor: 10ee, pciVendor: 10ee}}]\n",
		"mode: af\nresourceNamespace: 3com.example\ncdiDir: /c\nnodeName: n..1\nkubeconfig: k\n",
		"resourceNamespace: a\ncdiDir: /c\nnodeName: n.1\nkubeconfig: k\nallocationPolicy: spread\n",
		"cdiDir: /c\nprogrammingHook: /h\nprogrammingHookArgs: [--store=/s, &a '--afu x', *a, '']\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		path := filepath.Join(t.TempDir(), "f")
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
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
		if names.ValidateNamespace(c.ResourceNamespace) != nil || c.CDIDir != "" && (!filepath.IsAbs(c.CDIDir) || c.ResourceNamespace[0] <= '9') ||
			c.Kubeconfig != "" && !filepath.IsAbs(c.Kubeconfig) || strings.ContainsAny(c.NodeName, "/ \n?#%") || !slices.Contains(offer.Modes(), c.Mode) {
			t.Errorf("accepted: %+v", c)
		}
		if c.ProgrammingHook == "" && len(c.ProgrammingHookArgs) > 0 || c.ProgrammingHook != "" && c.CDIDir == "" ||
			strings.ContainsAny(strings.Join(c.ProgrammingHookArgs, ""), " \n\x00") {
			t.Errorf("accepted: %+v", c)
		}
		if !slices.IsSorted(c.Families) || len(c.Families) == 0 || len(slices.Compact(slices.Clone(c.Families))) != len(c.Families) ||
			slices.ContainsFunc(c.Families, func(f string) bool { return !slices.Contains(vocabulary.Families, f) }) {
			t.Errorf("families: %q", c.Families)
		}
		checkRules(t, c.Resources)
		again, others, err := l.Reload(l.Read())
		if diff := cmp.Diff(c, again); err != nil || others != nil || diff != "" {
			t.Errorf("again: others %q, error %v, config (-first +again):\n%s", others, err, diff)
		}
	})
}

// checkRules checks that every rule is valid and that no rule occurs twice.
func checkRules(t *testing.T, rules []offer.Rule) {
	t.Helper()
	matches := make(map[offer.Match]bool)
	for _, r := range rules {
		m := r.Match
		if names.Validate(r.Resource) != nil || m == (offer.Match{}) || matches[m] || strings.HasPrefix(m.PCIAddress, "0000:") ||
			!fourDigits.MatchString(m.PCIVendor) || !fourDigits.MatchString(m.PCIDevice) || !cardAddress.MatchString(m.PCIAddress) ||
			!id.MatchString(m.AFUID) || !id.MatchString(m.InterfaceID) ||
			!twoIDs.MatchString(m.Subsystem) || !cardAddress.MatchString(m.PhysicalFunction) || strings.HasPrefix(m.PhysicalFunction, "0000:") ||
			!index.MatchString(m.VirtualFunction) || m.Family != "" && !slices.Contains(vocabulary.Families, m.Family) {
			t.Errorf("rule: %+v", r)
		}
		matches[m] = true
	}
}

func noVariables(string) (string, bool) { return "", false }
