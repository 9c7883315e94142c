// Package makefile_test tests the Makefile.
package makefile_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// repository makes a git repository with the Makefile and a program that prints its version.
func repository(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"Makefile":         read(t, "../../Makefile"),
		"tools/version.sh": read(t, "../../tools/version.sh"),
		"VERSION":          "1.3.0-dev\n",
		"go.mod":           "module example.com/version\n",
		".gitignore":       "bin\n",
		"cmd/demo/main.go": "package main\n\nvar version string\n\nfunc main() { print(version) }\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	run(t, dir, "git", "init", "-q")
	run(t, dir, "git", "add", ".")
	run(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false", "commit", "-qm", "first")
	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	return string(must.Value(os.ReadFile(path))(t))
}

// write writes a file that can be run.
func write(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755))
}

// run runs a command in a directory, without the variables of a make that runs this test.
func run(t *testing.T, dir, name string, args ...string) (output string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "VERSION=") })
	cmd.Env = append(cmd.Env, "MAKEFLAGS=", "MAKELEVEL=", "GOFLAGS=", "GOWORK=off", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// The version comes from a release's tag, or from the file VERSION with the commit. Tags are fetched from any fork, so
// other tags must have no effect, and must not run anything.
func TestVersion(t *testing.T) {
	dir := repository(t)
	list := func() (names []string) {
		for _, e := range must.Value(os.ReadDir(dir))(t) {
			names = append(names, e.Name())
		}
		return names
	}
	commit := strings.TrimSpace(run(t, dir, "git", "rev-parse", "--short=12", "HEAD"))
	between := "1.3.0-dev+" + commit
	for _, test := range []struct{ tags, version string }{
		{"", between},
		{"v1.2.3", "1.2.3"},
		{"v1.2.3-rc.1", "1.2.3-rc.1"},
		{"v1.2.3-rc.1 v1.2.3 v1.2.2", "1.2.3"},
		{"v1.2.3-rc.2 v1.2.3-rc.10", "1.2.3-rc.10"},
		{"1.2.3", between},
		{"v1.2", between},
		{"v01.2.3", between},
		{"v1.2.3+a", between},
		{"v1.2.3_4", between},
		{"dra/v1.2.3", between},
		{"v9';touch${IFS}ran;'", between},
		{`v9.0.0-";touch${IFS}ran;"`, between},
		{"v9.0.0-$(touch${IFS}ran)", between},
		{"v9.0.0-`touch${IFS}ran`", between},
	} {
		tags := strings.Fields(test.tags)
		for _, tag := range tags {
			run(t, dir, "git", "tag", tag)
		}
		before := append(list(), "bin")
		run(t, dir, "make", "build-plugin")
		compare.Equal(t, test.tags, test.version, run(t, dir, "bin/demo"))
		slices.Sort(before)
		compare.Values(t, test.tags+": files", slices.Compact(before), list())
		for _, tag := range tags {
			run(t, dir, "git", "tag", "-d", tag)
		}
	}

	script := func(want string) {
		t.Helper()
		compare.Equal(t, "version", want+"\n", run(t, dir, "tools/version.sh"))
	}
	write(t, filepath.Join(dir, "untracked"), "x")
	script(between)
	write(t, filepath.Join(dir, "go.mod"), "module example.com/changed\n")
	script(between + ".dirty")
	run(t, dir, "git", "tag", "v1.2.3")
	script("1.2.3+dirty")
	// The source archive of a release may be unpacked below the work tree of another repository.
	run(t, dir, "git", "init", "-q", "..")
	must.Succeed(t, os.RemoveAll(filepath.Join(dir, ".git")))
	script("1.3.0-dev")
}
