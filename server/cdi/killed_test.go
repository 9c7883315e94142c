package cdi_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/server/cdi"
)

// writeIn makes the test binary a daemon that writes one list after the other
// into this directory until it is killed.
const writeIn = "CDI_TEST_WRITE_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writeIn); dir != "" {
		s, err := cdi.Open(dir, kind, "/dev")
		for i := 0; err == nil; i++ {
			err = s.Write(many(100, "dfl-port."+strconv.Itoa(i%2)))
		}
		panic(err)
	}
	os.Exit(m.Run())
}

func many(n int, node string) []cdi.Device {
	devices := make([]cdi.Device, n)
	for i := range devices {
		devices[i] = cdi.Device{ID: "3b:00.0-p" + strconv.Itoa(i), Nodes: []string{node}}
	}
	return devices
}

// A writer that is killed with its new file not yet in place leaves a whole old
// spec and something that no runtime reads. The next one cleans up after it,
// touches nothing of others, and is alone.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	killWithLeftover(t, dir)
	if _, err := inject(t, dir); err != nil { // it reads the whole directory
		t.Error(err)
	}

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
		if err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir)
	if left := leftovers(t, dir); len(left) != 2 { // those of others
		t.Errorf("after Open: %q", left)
	}
	write(t, s, board...)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, others)
}

// killWithLeftover runs a writer and kills it while its temporary file is there.
func killWithLeftover(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), writeIn+"="+dir)
		var said strings.Builder
		child.Stderr = &said
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for len(leftovers(t, dir)) == 0 && time.Now().Before(deadline) {
		}
		err := errors.Join(child.Process.Kill(), child.Wait())
		if said.Len() > 0 {
			t.Fatalf("writer: %v: %s", err, said.String())
		}
		if len(leftovers(t, dir)) > 0 {
			return
		}
	}
	t.Fatal("no writer was killed at the right moment")
}

func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What looks like a leftover may be a twin's, on its way: it stays as long as
// anybody else lives.
func TestNotALeftover(t *testing.T) {
	dir := t.TempDir()
	old := open(t, dir)
	temp := ".fpga.intel.com-fpga.123.tmp"
	if err := os.WriteFile(filepath.Join(dir, temp), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	young := open(t, dir)
	if err := young.Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, map[string]string{lock: "", temp: ""})
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, map[string]string{})
}
