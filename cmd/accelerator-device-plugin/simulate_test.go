package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The commands in docs/without-hardware.md work.
func TestSimulateAsDocumented(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	commands := regexp.MustCompile("(?m)^    accelerator-device-plugin simulate ([^#\n]*)").FindAllStringSubmatch(read(t, "../../docs/without-hardware.md"), -1)
	if len(commands) < 6 {
		t.Fatalf("found %d commands in docs/without-hardware.md", len(commands))
	}
	for _, command := range commands {
		words := strings.Fields(strings.ReplaceAll(command[1], "/var/lib/accel-sim", dir))
		if _, stderr, code := call(t, append([]string{"simulate"}, words...)...); code != 0 {
			t.Errorf("%s: exit code %d, %s", command[0], code, stderr)
		}
	}
}

// TestSimulate checks the devices after each step. Functions on vfio-pci belong to the vfio family, and functions on
// xocl to the xrt family.
func TestSimulate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	for _, step := range []struct{ words, want string }{
		{"", ""},
		{"--board two-ports", "3b:00.0 healthy, 3b:00.0-p1 healthy"},
		{"break 3b:00.0-p1", "3b:00.0 healthy, 3b:00.0-p1 unhealthy"},
		{"break 3b:00.0 power-throttled", "3b:00.0 unhealthy, 3b:00.0-p1 unhealthy"},
		{"heal 3b:00.0-p1", "3b:00.0 unhealthy, 3b:00.0-p1 healthy"},
		{"heal 3b:00.0", "3b:00.0 healthy, 3b:00.0-p1 healthy"},
		{"plug 5e:00.0 --board vf", "3b:00.0 healthy, 3b:00.0-p1 healthy, 5e:00.0 healthy, 5e:00.1 healthy"},
		{"pull 3b:00.0", "5e:00.0 healthy, 5e:00.1 healthy"},
		{"pull 0000:5e:00.0", ""},
		{"plug 3b:00.0 --board n6001-vfs", "3b:00.1 healthy, 3b:00.2 healthy, 3b:00.3 healthy"},
		{"break 3b:00.2", "3b:00.1 unhealthy, 3b:00.2 unhealthy, 3b:00.3 unhealthy"},
		{"heal 3b:00.2", "3b:00.1 healthy, 3b:00.2 healthy, 3b:00.3 healthy"},
		{"break 3b:00.2 node-missing", "3b:00.1 healthy, 3b:00.2 unhealthy, 3b:00.3 healthy"},
		{"pull 3b:00.0", ""},
		{"plug 3b:00.0 --board one-group", "3b:00.0 healthy"},
		{"break 3b:00.0 group-not-viable", "3b:00.0 unhealthy"},
		{"heal 3b:00.0", "3b:00.0 healthy"},
		{"pull 3b:00.0", ""},
		{"plug 3b:00.0 --board u250", "3b:00.1 healthy"},
		{"break 3b:00.1", "3b:00.1 unhealthy"},
		{"heal 3b:00.1", "3b:00.1 healthy"},
		{"break 3b:00.1 resetting", "3b:00.1 unhealthy"},
		{"heal 3b:00.1", "3b:00.1 healthy"},
		{"pull 3b:00.0", ""},
	} {
		out, stderr, code := call(t, append([]string{"simulate", dir}, strings.Fields(step.words)...)...)
		if code != 0 {
			t.Fatalf("%q: exit code %d, %s", step.words, code, stderr)
		}
		compare.Values(t, fmt.Sprintf("devices after %q", step.words), step.want, simulatedHealth(t, dir))
		if lines := strings.Count(out, "\n"); step.want == "" && lines != 1 || step.want != "" && lines != 2+strings.Count(step.want, ",") {
			t.Errorf("%q: printed\n%s", step.words, out)
		}
		if warned := strings.Contains(stderr, "pods cannot get these devices"); warned == (os.Geteuid() == 0) {
			t.Errorf("%q: stderr %q", step.words, stderr)
		}
	}
}

// simulatedHealth returns a simulated node's devices with their health.
func simulatedHealth(t *testing.T, dir string) string {
	t.Helper()
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot = dir+"/sys", dir+"/dev"
	cfg.Families = append(cfg.Families, "vfio", "xrt")
	snapshot := must.Value(deviceplugin.ScanOnce(t.Context(), cfg, daemon.Watching(cfg, metrics.New("test"))))(t)
	var all []string
	for _, d := range snapshot.Devices {
		all = append(all, d.ID+" "+d.Health.String())
	}
	return strings.Join(all, ", ")
}

// The tree contains the IDs given on the command line.
func TestSimulateIDs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	const afu, region = "00112233445566778899aabbccddeeff", "a1b2c3d4e5f60718293a4b5c6d7e8f90"
	if out, stderr, code := call(t, "simulate", dir, "plug", "01:00.0", "--afu", afu, "--interface", region); code != 0 || !strings.Contains(out, afu) {
		t.Fatalf("exit code %d, %s\n%s", code, stderr, out)
	}
	found, err := filepath.Glob(dir + "/sys/class/fpga_region/*/compat_id")
	if err != nil || len(found) != 1 || read(t, found[0]) != region+"\n" {
		t.Errorf("interface ids in %v, %v", found, err)
	}
}

func TestSimulateRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	for _, tt := range []struct {
		words string
		code  int
		want  string
	}{
		{"", 2, "DIR: found none"},
		{dir + " unplug 3b:00.0", 2, `argument after DIR: found "unplug", want plug, pull, break or heal`},
		{dir + " pull", 2, "pull: found 0 arguments, want 1"},
		{dir + " break", 2, "break: found 0 arguments, want 1 or 2"},
		{dir + " heal 3b:00.0 5e:00.0", 2, "heal: found 2 arguments, want 1"},
		{dir + " pull 3b:00.0 --board vf", 2, "pull: found --board, --afu or --interface, want none"},
		{dir + " --afu " + strings.Repeat("0", 32), 2, "--board: found none"},
		{dir + " plug 3b:00.0 --afu nlb0", 2, "want 32 hexadecimal digits"},
		{dir + " --board a10", 2, `found "a10", want one of pac-a10, `},
		{dir + " plug 3b:0", 2, `found "3b:0", want the PCI address of a card`},
		{dir + " pull 3b:00.0", 1, "slot 0000:3b:00.0: found no card"},
	} {
		if _, stderr, code := call(t, append([]string{"simulate"}, strings.Fields(tt.words)...)...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: exit code %d, %s; want %d and %q", tt.words, code, stderr, tt.code, tt.want)
		}
	}
}
