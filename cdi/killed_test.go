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

	"b-com.com/accelerator-device-plugin/cdi"
)

// writeIn is the environment variable with a directory. If it is set, the test binary writes one
// list of devices after the other into that directory until it is killed.
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

// A daemon that is killed while it writes leaves a complete old spec and a temporary file, which no
// runtime reads. The next daemon removes the temporary file, leaves the files of other programs,
// and gets the exclusive lock.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	killWithLeftover(t, dir)
	if _, err := inject(t, dir); err != nil { // the runtime reads the whole directory
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
	if left := leftovers(t, dir); len(left) != 2 { // the files of other programs
		t.Errorf("temporary files after Open: found %q, want two", left)
	}
	write(t, s, board...)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, others)
}

// killWithLeftover starts a daemon that writes, and kills it while its temporary file exists.
func killWithLeftover(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), writeIn+"="+dir)
		var stderr strings.Builder
		child.Stderr = &stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for len(leftovers(t, dir)) == 0 && time.Now().Before(deadline) {
		}
		err := errors.Join(child.Process.Kill(), child.Wait())
		if stderr.Len() > 0 {
			t.Fatalf("writer: %v: %s", err, stderr.String())
		}
		if len(leftovers(t, dir)) > 0 {
			return
		}
	}
	t.Fatal("temporary file of a killed daemon: found none within 30s, want one")
}

func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A temporary file may be one that a peer is writing: it stays as long as another daemon runs.
func TestTemporaryFileOfPeer(t *testing.T) {
	dir := t.TempDir()
	older := open(t, dir)
	temp := ".fpga.intel.com-fpga.123.tmp"
	if err := os.WriteFile(filepath.Join(dir, temp), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	newer := open(t, dir)
	if err := newer.Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, map[string]string{lock: "", temp: ""})
	if err := older.Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, map[string]string{})
}
