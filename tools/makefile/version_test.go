// Package makefile_test tests the Makefile.
package makefile_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository makes a git repository with the Makefile and a program that prints its version.
func repository(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Makefile":         string(makefile),
		"go.mod":           "module example.com/version\n",
		".gitignore":       "bin\n",
		"cmd/demo/main.go": "package main\n\nvar version string\n\nfunc main() { print(version) }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, "git", "init", "-q")
	run(t, dir, "git", "add", ".")
	run(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false", "commit", "-qm", "first")
	return dir
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

// Tags come with a fetch from any fork. A tag runs nothing, and the rest of its name is the version.
func TestTagRunsNothing(t *testing.T) {
	dir := repository(t)
	list := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for _, test := range []struct{ tag, version string }{
		{"v1.2.3-rc.1+a_b", "v1.2.3-rc.1+a_b"},
		{"v9';touch${IFS}ran;'", "v9touchIFSran"},
		{`v9";touch${IFS}ran;"`, "v9touchIFSran"},
		{"v9$(touch${IFS}ran)", "v9touchIFSran"},
		{"v9`touch${IFS}ran`", "v9touchIFSran"},
		{"';'", "devel"},
	} {
		run(t, dir, "git", "tag", test.tag)
		before := append(list(), "bin")
		run(t, dir, "make", "build-plugin")
		if diff := cmp.Diff(test.version, run(t, dir, "bin/demo")); diff != "" {
			t.Errorf("%s: version (-want +got):\n%s", test.tag, diff)
		}
		after := list()
		slices.Sort(before)
		if diff := cmp.Diff(slices.Compact(before), after); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", test.tag, diff)
		}
		run(t, dir, "git", "tag", "-d", test.tag)
	}
}
