package config_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// policy contains the settings that are only allowed in a file.
type policy struct {
	Exclude  map[string]bool
	Severity map[string]string
}

func TestPolicy(t *testing.T) {
	excluded := func(addresses ...string) policy {
		p := policy{Exclude: make(map[string]bool)}
		for _, a := range addresses {
			p.Exclude[a] = true
		}
		return p
	}
	for _, test := range []struct {
		name, yaml string
		want       policy
	}{
		{"not given", "mode: single\n", policy{}},
		{"empty", "exclude: []\nhealth:\n  severity: {}\n", policy{}},
		{"last entry taken out", "exclude:\n#- 3b:00.0\nhealth:\n  severity:\n#   link-speed: ignored\n", policy{}},
		{"cards and ports", "exclude:\n- 3b:00.0 # as lspci has it\n- 3b:00.1-p0\n- 5e:00.0-p3\n", excluded("3b:00.0", "3b:00.1-p0", "5e:00.0-p3")},
		{"card and port of it", "exclude: [3b:00.0, 3b:00.0-p0, 3b:00.0-p1]\n", excluded("3b:00.0", "3b:00.0-p0", "3b:00.0-p1")},
		{"domain 0", "exclude: [0000:3b:00.0, 0000:5e:00.0-p1]\n", excluded("3b:00.0", "5e:00.0-p1")},
		{"other domains", "exclude: [0001:3b:00.0-p1, 10000:01:00.0, ffffffff:ff:1f.7]\n", excluded("0001:3b:00.0-p1", "10000:01:00.0", "ffffffff:ff:1f.7")},
		{"capitals", "exclude: [AF:1F.7, 000A:3B:00.0-P1]\n", excluded("af:1f.7", "000a:3b:00.0-p1")},
		{"alias", "hostDevRoot: &root /dev\nexclude: [&card 3b:00.0]\ndevRoot: *root\nhealth: &h {severity: {afu-dead: &f fatal, link-speed: *f}}\n",
			policy{map[string]bool{"3b:00.0": true}, map[string]string{"afu-dead": "fatal", "link-speed": "fatal"}}},
		{"severities", "health:\n  severity:\n    port-mmio-timeout: fatal\n    power-throttled=1: ignored\n    link-speed: degraded\n",
			policy{Severity: map[string]string{"port-mmio-timeout": "fatal", "power-throttled=1": "ignored", "link-speed": "degraded"}}},
		{"name of several rows", "health: {severity: {power-throttled: ignored, power-throttled=6: fatal}}\n",
			policy{Severity: map[string]string{"power-throttled": "ignored", "power-throttled=6": "fatal"}}},
	} {
		cfg := must.Value(load(t, nil, nil, test.yaml))(t)
		compare.Values(t, test.name+": policy", test.want, policy{cfg.Exclude, cfg.Severity})
	}
}

const (
	wantAddress = "want the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0, or of one port of it, 3b:00.0-p0 to 3b:00.0-p3"
	wantReason  = ", want one of afu-dead, link-speed, port-mmio-timeout, power-throttled"
)

// Errors contain one line per mistake, with its location.
func TestPolicyRefusals(t *testing.T) {
	for _, test := range []struct {
		name, yaml string
		want       []string // without the path in front
	}{
		{"exclude is one value", "mode: single\nexclude: 3b:00.0\n", []string{`2: exclude: found "3b:00.0", want a list of PCI addresses`}},
		{"exclude twice", "exclude: []\nexclude: []\n", []string{"2: exclude: found twice, first on line 1, want it once"}},
		{"entries of all kinds", "exclude:\n- 3b:00.0\n-\n- [5e:00.0]\n- 5e:00.0: p1\n- ~\n- ''\n", []string{
			"3: exclude: found nothing, want one value",
			"4: exclude: found a list, want one value",
			"5: exclude: found a mapping, want one value",
			"6: exclude: found nothing, want one value",
			`7: exclude: found "", ` + wantAddress,
		}},
		{"entry twice", "exclude:\n- 3b:00.0\n- 5e:00.0\n- 3b:00.0\n", []string{`4: exclude: found "3b:00.0" twice, first on line 2, want it once`}},

		{"health is a list", "health: [severity]\n", []string{"1: health: found a list, want a mapping with severity"}},
		{"unknown key of health", "health:\n  severity: {}\n  sevirity: {}\n", []string{`3: health: found the key "sevirity", want one of severity`}},
		{"severity is a list", "health:\n  severity: [afu-dead]\n", []string{`2: health.severity: found a list, want a mapping with afu-dead, link-speed, port-mmio-timeout, power-throttled`}},

		{"reason twice", "health:\n  severity:\n    afu-dead: fatal\n    'afu-dead': fatal\n", []string{"4: health.severity.afu-dead: found twice, first on line 3, want it once"}},
		{"reason is not a string", "health:\n  severity:\n    ? {a: b}\n    : fatal\n", []string{"3: health.severity: found a mapping, want a string as a key"}},
		{"reason misspelt", "health:\n  severity:\n    port-mmio-timeot: fatal\n", []string{
			`3: health.severity: found the key "port-mmio-timeot"` + wantReason}},
		{"value that no row has", "health: {severity: {power-throttled=5: fatal}}\n", []string{
			`1: health.severity: found the key "power-throttled=5"` + wantReason + ", power-throttled=1, power-throttled=2, power-throttled=6"}},
		{"unknown severities", "health:\n  severity:\n    afu-dead: bad\n    link-speed: Fatal\n    port-mmio-timeout:\n    power-throttled: [fatal]\n", []string{
			`3: health.severity.afu-dead: found "bad", want one of fatal, degraded, ignored`,
			`4: health.severity.link-speed: found "Fatal", want one of fatal, degraded, ignored`,
			"5: health.severity.port-mmio-timeout: found nothing, want one value",
			"6: health.severity.power-throttled: found a list, want one value",
		}},
		{"several mistakes", "exclude: [x]\nmode: zen\nhealth: {severity: {afu-dead: x}}\n", []string{
			`1: exclude: found "x", ` + wantAddress,
			`2: mode: found "zen", want one of single, af, region, regiondevel, pool`,
			`3: health.severity.afu-dead: found "x", want one of fatal, degraded, ignored`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) { wantRefusal(t, test.yaml, test.want) })
	}
}

// Without a health table, severities can't be overridden.
func TestNoRows(t *testing.T) {
	l := config.New(config.Vocabulary{})
	l.Config.File = write(t, "health: {severity: {afu-dead: fatal}}\n")
	compare.Error(t, "Load", `found the key "afu-dead", want one of `, l.Load(noVariables))
}
