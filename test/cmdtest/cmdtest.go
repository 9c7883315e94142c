// Package cmdtest builds and runs the device plugin in tests.
package cmdtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// binaries is the directory with the built program, or "" if no test has needed it yet.
var binaries string

// built builds the program once for all of the process's tests. It uses the same flags as make build, so that the two
// share the build cache.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(patient.Disk, "adp-bin")
	if err != nil {
		return "", err
	}
	binaries = dir
	path := filepath.Join(dir, "accelerator-device-plugin")
	cmd := exec.Command("go", "build", "-tags", "grpcnotrace", "-trimpath", "-ldflags", "-s -w", "-o", path,
		"b-com.com/accelerator-device-plugin/cmd/accelerator-device-plugin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "TMPDIR="+patient.Disk)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// Run runs the tests in a package that uses [Command]. It is like [patient.Main], but also removes the built program.
func Run(m *testing.M) int {
	code := patient.Main(m)
	if binaries != "" {
		os.RemoveAll(binaries)
	}
	return code
}

// Command returns a command that runs the program with the given arguments. Its environment overrides settings whose
// defaults are files or addresses on this machine, because a kubelet or another daemon may be using those.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	path := must.Value(built())(t)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "ACCELERATOR_SOCKET=", "ACCELERATOR_STATE_DIR=", "ACCELERATOR_HTTP_ADDRESS=",
		"ACCELERATOR_KUBELET_DIR=/nonexistent/device-plugins", "ACCELERATOR_POD_RESOURCES_SOCKET=/nonexistent/kubelet.sock",
	}
	return cmd
}

// Output runs the program until it exits, and returns its output and exit code.
func Output(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := Command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// ShortDir returns a temporary directory whose path is short enough for sockets.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir := must.Value(os.MkdirTemp("", "adp"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
