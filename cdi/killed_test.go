package cdi_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const temp = ".fpga.intel.com-fpga.123.tmp"

func many(n int, node string) []cdi.Device {
	devices := make([]cdi.Device, n)
	for i := range devices {
		devices[i] = cdi.Device{ID: "3b:00.0-p" + strconv.Itoa(i), Nodes: []string{node}}
	}
	return devices
}

// A daemon that was killed during a write leaves behind an old spec and a temporary file, which runtimes don't read.
// The next daemon removes the temporary file but leaves other programs' files alone.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	others := map[string]string{
		"spec.123.tmp": "", ".b-com.com-fpga.123.tmp": "", ".fpga.intel.com-fpga.yaml.swp": "", ".fpga.intel.com-fpga.d.tmp": "d---------",
	}
	for name, kind := range others {
		var err error
		if kind == "" {
			err = os.WriteFile(filepath.Join(dir, name), nil, 0o644)
		} else {
			err = os.Mkdir(filepath.Join(dir, name), 0o755)
		}
		must.Succeed(t, err)
	}
	for name, text := range map[string]string{name: goldenFile(t, name), temp: goldenFile(t, name)[:100], lock: ""} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must.Value(inject(t, dir))(t) // the runtime reads the whole directory
	s := open(t, dir)
	compare.ErrorIs(t, "temporary file after Open", os.ErrNotExist, compare.ErrorOf(os.Lstat(filepath.Join(dir, temp))))
	write(t, s, board...)
	must.Succeed(t, s.Close())
	expect(t, dir, others)
}

// A peer might still be writing a temporary file, so the file stays as long as another daemon is running.
func TestTemporaryFileOfPeer(t *testing.T) {
	dir := t.TempDir()
	older := open(t, dir)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, temp), nil, 0o600))
	newer := open(t, dir)
	must.Succeed(t, newer.Close())
	expect(t, dir, map[string]string{lock: "", temp: ""})
	must.Succeed(t, older.Close())
	expect(t, dir, map[string]string{})
}
