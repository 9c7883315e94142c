package prometheus_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	binary = flag.String("daemon", "../../bin/accelerator-device-plugin", "binary under test, built by make build")
	server = flag.String("prometheus", "prometheus", "path or name of Prometheus")
	tool   = flag.String("promtool", "promtool", "path or name of promtool")
	out    = flag.String("out", "../../bin/test-prometheus", "directory for logs")
)

// awaitTimeout is the time limit for every wait.
const awaitTimeout = 15 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// prepare resolves the programs' paths. If a program is missing, the tests fail; they aren't skipped.
func prepare() error {
	for _, program := range []struct {
		path *string
		from string
	}{
		{binary, "make build"},
		{server, "Debian's package prometheus"},
		{tool, "Debian's package prometheus"},
	} {
		found, err := exec.LookPath(*program.path)
		if err != nil {
			return fmt.Errorf("%s is missing, provided by %s: %w", filepath.Base(*program.path), program.from, err)
		}
		if *program.path, err = filepath.Abs(found); err != nil {
			return err
		}
	}
	var err error
	if *out, err = filepath.Abs(*out); err != nil {
		return err
	}
	return os.MkdirAll(*out, 0o755)
}

// output runs a program and returns its output.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	text, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v\n%s", filepath.Base(name), args, err, text)
	}
	return string(text)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
