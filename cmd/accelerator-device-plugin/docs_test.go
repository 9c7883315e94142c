package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/docs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/sim/demo"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/doccmd"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/picture"
)

// docs/demo.svg shows what the demo prints. -update records it again, with this machine's times.
func TestDemoPicture(t *testing.T) {
	const file = "../../docs/demo.svg"
	cfg := config.Defaults()
	cfg.RecoveryHold = time.Second
	var out strings.Builder
	must.Succeed(t, demo.Run(t.Context(), &out, demo.Options{Colour: true, Resource: cfg.ResourceName, Hold: cfg.RecoveryHold}, demoDaemon(cfg)))
	text := regexp.MustCompile(`/\S+/accel-demo-\d+`).ReplaceAllString(out.String(), "/tmp/accel-demo-2026112606")
	lines := strings.Split("\x1b[1m$ make demo\x1b[0m\n"+strings.TrimSuffix(text, "\n"), "\n")
	got := picture.Terminal("make demo: each change of the simulated cards, and what the kubelet receives", lines)
	if *golden.Update {
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
	}
	varies := regexp.MustCompile(` *\d+\.\d+ m?s`)
	compare.Values(t, file+", which -update writes", varies.ReplaceAllString(got, ""), varies.ReplaceAllString(read(t, file), ""))
}

// The commands and flags in the documentation and in the help exist. In docs/logs.md, LOGS stands for the logs command.
func TestDocumentedCommands(t *testing.T) {
	const program = "accelerator-device-plugin"
	found := append(doccmd.Commands(t, "../..", program), doccmd.Examples(newRoot(), program)...)
	for _, c := range doccmd.Commands(t, "../..", "LOGS") {
		c.Args = append([]string{"logs"}, c.Args...)
		found = append(found, c)
	}
	doccmd.Check(t, 150, found, newRoot)
}

// docs/health.md lists exactly the daemon's own reasons, and their severity can't be overridden.
func TestReasonsOfTheDaemon(t *testing.T) {
	_, second, _ := strings.Cut(read(t, "../../docs/health.md"), "## Found by the daemon")
	second, _, _ = strings.Cut(second, "\n## ")
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)").FindAllStringSubmatch(second, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	compare.Values(t, "reasons (-inventory +docs/health.md)", inventory.Reasons(), names)
	for _, name := range names {
		file := filepath.Join(t.TempDir(), "config.yaml")
		must.Succeed(t, os.WriteFile(file, []byte("health: {severity: {"+name+": ignored}}\n"), 0o600))
		loader := daemon.NewLoader()
		loader.Config.File = file
		err := loader.Load(func(string) (string, bool) { return "", false })
		compare.Error(t, "severity of "+name, `found the key "`+name+`", want one of `, err)
	}
}

// docs/health.md lists exactly the rows of the families' health tables, with their severities.
func TestHealthTableIsExplained(t *testing.T) {
	severity := map[string]string{} // by reason, according to the documentation
	for _, r := range docs.Reasons() {
		for _, name := range r.Names {
			base, _, _ := strings.Cut(name, "=")
			if !slices.Contains(inventory.Reasons(), base) {
				severity[name] = regexp.MustCompile(`^\w+`).FindString(r.Device)
			}
		}
	}
	if len(severity) < 100 {
		t.Fatalf("%d reasons found in the table, want all of them", len(severity))
	}
	known := map[string]bool{}
	for _, f := range daemon.AllFamilies(config.Defaults()) {
		for _, row := range f.Rows() {
			if got := severity[row.Name]; got != row.Health.String() {
				t.Errorf("%s: %s makes a device %s; docs/health.md says %q", f.Name(), row.Name, row.Health, got)
			}
			known[row.Name] = true
		}
	}
	for reason := range severity {
		if !known[reason] {
			t.Errorf("docs/health.md explains %s, which no family's table has", reason)
		}
	}
}

// The explain command has a text for every reason, even for one with a value that isn't listed in docs/health.md. For
// the files of cards with ports, it also prints the directory.
func TestExplain(t *testing.T) {
	all := inventory.Reasons()
	for _, f := range daemon.AllFamilies(config.Defaults()) {
		for _, row := range f.Rows() {
			all = append(all, row.Name)
			if out, _, _ := explained(t, row.Name); f.Name() == "dfl" && !strings.Contains(out, ": /sys/bus/pci/devices/0000:3b:00.0/") &&
				!strings.Contains(out, ", /sys/bus/pci/devices/0000:3b:00.0/") && !strings.Contains(out, "readlink -f /sys/bus/pci/devices/0000:3b:00.0") {
				t.Errorf("explain %s: no directory in\n%s", row.Name, out)
			}
		}
	}
	for _, reason := range append(all, "unreadable=errors/errors", "alarm-crit=fan 1", "recovering=port-ap6", "fme-fatal=0x8000") {
		out, errs, code := explained(t, reason)
		name, _, _ := strings.Cut(reason, "=")
		if code != 0 || errs != "" || !strings.HasPrefix(out, name) || strings.ContainsAny(out, "`") || strings.Contains(out, "](") || len(out) < len(reason)+40 {
			t.Errorf("explain %s: exit code %d, printed\n%s%s", reason, code, out, errs)
		}
	}
	for _, test := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"port-ap6"}, 0, []string{
			"port-ap6: the device is unhealthy\nRead from: errors/errors bit 50\nDirectories for card 3b:00.0:\n" +
				"  the port: /sys/bus/pci/devices/0000:3b:00.0/fpga_region/region*/dfl-port.*/, or with OPAE's driver " +
				"/sys/bus/pci/devices/0000:3b:00.0/fpga/intel-fpga-dev.*/intel-fpga-port.*/\n\nthe port was shut down because of power or heat.",
			"--- Clearing a sticky error\n", "The node may crash if a process has a port open: docs/service.md",
		}},
		{[]string{"recovering=port-ap6"}, 0, []string{"recovering=NAME: the device is as with NAME\n", "\nport-ap6: the device is unhealthy\n"}},
		{[]string{"fme-unbound"}, 0, []string{"DRIVER=; or the FME existed and is gone\nDirectories for card 3b:00.0:\n  fme/: the card's management engine (FME), /sys/bus/"}},
		{[]string{"no-iommu"}, 0, []string{"Read from: family vfio: the IOMMU group's name is vfio-noiommu\n\na container"}},
		{[]string{"missing"}, 0, []string{"If you want to pull such a card", "the card is missing."}},
		{[]string{"power-throttled=6"}, 0, []string{"power-throttled=6: the device is unhealthy\n"}},
		{[]string{"power-throttled"}, 0, []string{"power-throttled=1, power-throttled=2: the device is degraded\n", "power-throttled=6: the device is unhealthy\n"}},
		{nil, 0, []string{"REASON ", "\npower-throttled=6 ", "\nunreadable=FILE ", "\nflapping "}},
		{[]string{"PORT-AP6"}, 0, []string{"port-ap6: the device is unhealthy\n"}},
		{[]string{"port-ap7"}, 2, []string{`REASON: found "port-ap7", want one that explain lists if you leave out REASON; similar: port-dead, port-ap6, `, ", port-id-conflict\n"}},
		{[]string{"nonsense"}, 2, []string{"want one that explain lists if you leave out REASON\n"}},
		{[]string{"flapping", "excluded"}, 2, []string{"at most 1 arg"}},
	} {
		out, errs, code := explained(t, test.args...)
		for _, want := range test.says {
			if code != test.code || !strings.Contains(out+errs, want) {
				t.Errorf("explain %v: exit code %d, want %d and %q:\n%s%s", test.args, code, test.code, want, out, errs)
			}
		}
	}
}

// explained returns explain's output and exit code.
func explained(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"explain"}, args...), &out, &errs)
	return out.String(), errs.String(), code
}

// The chart's schema contains the families that rules can use, and docs/configuration.md explains them. -update writes
// the schema.
func TestFamiliesOfRules(t *testing.T) {
	const schema = "../../deploy/helm/accelerator-device-plugin/values.schema.json"
	text := read(t, "../../docs/configuration.md")
	row := regexp.MustCompile("(?m)^\\| `family` \\| .*$").FindString(text)
	flag := regexp.MustCompile("(?m)^\\| `--families` \\| .*$").FindString(text)
	var names []string
	for _, f := range daemon.AllFamilies(config.Defaults()) {
		names = append(names, f.Name())
		for _, row := range []string{row, flag} {
			compare.Contains(t, "docs/configuration.md on "+f.Name(), "`"+f.Name()+"`", row)
		}
	}
	got := regexp.MustCompile(`("(?:family|families)": .*"enum": )\[.*?\]`).ReplaceAllString(read(t, schema), `$1["`+strings.Join(names, `", "`)+`"]`)
	golden.Compare(t, schema, got)
}

// The daemon accepts the documented settings that contain rules for functions and shells.
func TestDocumentedFamilies(t *testing.T) {
	for _, page := range []string{"families.md", "migration.md"} {
		examples := regexp.MustCompile("(?s)```yaml\n( *)((?:families: |resources:\n *- name).*?)```").FindAllStringSubmatch(read(t, "../../docs/"+page), -1)
		if len(examples) < 2 {
			t.Errorf("docs/%s: found %d examples with families or rules, want at least 2", page, len(examples))
		}
		for _, example := range examples {
			loader := daemon.NewLoader()
			loader.Config.File = filepath.Join(t.TempDir(), "config.yaml")
			must.Succeed(t, os.WriteFile(loader.Config.File, []byte(strings.ReplaceAll(example[2], "\n"+example[1], "\n")), 0o600))
			if err := loader.Load(func(string) (string, bool) { return "", false }); err != nil {
				t.Errorf("docs/%s: %v:\n%s", page, err, example[2])
			}
		}
	}
}

// With the settings from each example in docs/which-way.md, a node with the documented card advertises the resource
// that the example's pod requests.
func TestWhichWay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	if _, errs, code := cmdtest.Output(t, "simulate", dir, "--board", "two-ports"); code != 0 {
		t.Fatal(errs)
	}
	tried := 0
	for _, section := range strings.Split(read(t, "../../docs/which-way.md"), "\n## ")[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		settings := regexp.MustCompile("(?s)```yaml\nconfig:(.*?)(?:\nprogramming:[^\n]*)?\n```").FindStringSubmatch(section)
		limit := regexp.MustCompile(`limits:\s*\{?([^\s:]+): 1`).FindStringSubmatch(section)
		if settings == nil || limit == nil {
			continue
		}
		text := strings.TrimSpace(settings[1])
		if !strings.HasPrefix(text, "{") {
			text = strings.ReplaceAll(settings[1], "\n  ", "\n")
		}
		file := filepath.Join(t.TempDir(), "config.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		out, errs, code := cmdtest.Output(t, "devices", "--scan", "--config", file, "--sysfs-root", dir+"/sys", "--dev-root", dir+"/dev")
		if code != 0 || !strings.Contains(out, " "+limit[1]+"\n") {
			t.Errorf("%s: exit code %d, found no device of %s in\n%s%s", heading, code, limit[1], out, errs)
		}
		tried++
	}
	compare.Equal(t, "docs/which-way.md: examples with settings and a pod", 4, tried)
}

// The package in docs/extending.md passes its tests with the board from that page, without having any files in the
// source tree.
func TestExampleFamily(t *testing.T) {
	page := read(t, "../../docs/extending.md")
	root := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, m := range regexp.MustCompile("(?s)```go\n// (inventory/xdma/\\w+\\.go)\n(.*?)```").FindAllStringSubmatch(page, -1) {
		path := must.Value(filepath.Abs("../../" + m[1]))(t)
		overlay.Replace[path] = write(t, filepath.Join(root, m[1]), m[2])
	}
	if len(overlay.Replace) != 5 {
		t.Fatalf("docs/extending.md: found %d files of inventory/xdma, want 5", len(overlay.Replace))
	}
	for _, m := range regexp.MustCompile("(?s)```\n-- (testdata/sysfs/\\S+) --\n(.*?)```").FindAllStringSubmatch(page, -1) {
		write(t, filepath.Join(root, m[1]), m[2])
	}
	file := write(t, filepath.Join(root, "overlay.json"), string(must.Value(json.Marshal(overlay))(t)))
	program := filepath.Join(root, "xdma.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-o", program, "-trimpath", "-overlay", file, "../../inventory/xdma")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in make build, so that most packages are compiled only once
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("docs/extending.md: %v\n%s", err, out)
	}
	run := exec.Command(program, "-test.v")
	run.Dir = filepath.Join(root, "inventory/xdma") // the board is in ../../testdata
	out, err := run.CombinedOutput()
	if passed := strings.Count(string(out), "--- PASS: "); err != nil || passed != 4 {
		t.Errorf("docs/extending.md: %v, %d tests passed, want 4\n%s", err, passed, out)
	}
}

// write creates a file and its directory, and returns its path.
func write(t *testing.T, file, text string) string {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600))
	return file
}

// All reasons in the alerts exist. AcceleratorDeviceUnhealthy leaves out devices that are withheld because of a
// container, for which another alert fires.
func TestReasonsOfAlerts(t *testing.T) {
	var all [][]string // by alert
	for _, m := range regexp.MustCompile(`accelerator_device_reason\{reason=~?"([^"]*)"`).FindAllStringSubmatch(read(t, "../../deploy/prometheus/alerts.yaml"), -1) {
		all = append(all, strings.Split(m[1], "|"))
	}
	for _, name := range slices.Concat(all...) {
		if !slices.Contains(inventory.Reasons(), name) {
			t.Errorf("no device has the reason %q", name)
		}
	}
	for _, name := range inventory.Reasons() {
		if r := inventory.ReasonOf(name); (r.Tombstone || r.Administrative && r.WithholdsNodes) && !slices.Contains(all[0], name) {
			t.Errorf("AcceleratorDeviceUnhealthy fires for %s", name)
		}
	}
	others := slices.Concat(all[1:]...)
	for _, name := range all[0] {
		if brief := []string{inventory.ReasonRemoved, inventory.ReasonMoving, inventory.ReasonHoldersUnknown}; !slices.Contains(others, name) && !slices.Contains(brief, name) {
			t.Errorf("no alert fires for %s", name) // brief ones end when the kubelet answers: AcceleratorHoldersUnknown
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text := must.Value(os.ReadFile(file))(t)
	return string(text)
}

// All links in the documentation lead to existing pages and headings, and so do references to docs/ in other files.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s:]*)\)|\b(docs/[\w-]+\.md(?:#[\w-]+)?)`)
	root := "../.."
	links := 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "dist", "bin", "node_modules"}, d.Name()):
			return filepath.SkipDir
		case !d.Type().IsRegular() || !slices.Contains([]string{".md", ".go", ".yaml", ".tpl", ".txt", ".json", ".sh", ".service"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, base := m[1], filepath.Dir(path)
			if m[2] != "" {
				target, base = m[2], root
			} else if filepath.Ext(path) != ".md" {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(target, "#")
			if file = filepath.Join(base, file); target[0] == '#' {
				file = path
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: link to %s: %v", path, target, err)
			} else if anchor != "" && !slices.Contains(headings(t, file), anchor) {
				t.Errorf("%s: link to %s: no such heading", path, target)
			}
		}
		return nil
	})
	if err != nil || links < 200 {
		t.Errorf("found %d links, error %v, want at least 200", links, err)
	}
}

// headings returns the anchors that GitHub generates for a document's headings.
func headings(t *testing.T, file string) []string {
	var anchors []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(read(t, file), -1) {
		anchor := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}
