package makefile_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/doccmd"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The targets and variables of each make in the documents exist, and the patterns select something. (A test of test/bench checks ROWS.)
func TestDocumentedTargets(t *testing.T) {
	makefile := read(t, "../../Makefile")
	commands := doccmd.Commands(t, "../..", "make")
	for _, c := range commands {
		help := "" // of the targets so far
		for _, arg := range c.Args {
			name, value, isVariable := strings.Cut(arg, "=")
			if !isVariable {
				line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(arg) + `:.* ## .*`).FindString(makefile)
				if line == "" {
					t.Errorf("%s: found no target %s", c, arg)
				}
				help += line
				continue
			}
			if !strings.Contains(help, name+"=") && !strings.Contains(makefile, "$("+name) {
				t.Errorf("%s: found no variable %s of this target in the Makefile", c, name)
			}
			switch c.Args[0] + " " + name {
			case "test-kernel STORIES":
				expect(t, c, value, stories(t, "stories"))
			case "fixtures STORIES":
				expect(t, c, value, stories(t, "recordings"))
			case "e2e STORIES":
				expect(t, c, value, matches(t, `(?m)^\t\{"([a-z0-9-]+)", `, "../../test/e2e/stories.go"))
			case "test-kubelet TESTS", "test-prometheus TESTS":
				expect(t, c, value, tests(t, "../../test/"+strings.TrimPrefix(c.Args[0], "test-")))
			}
		}
	}
	if len(commands) < 150 {
		t.Errorf("found %d commands, want 150 or more", len(commands))
	}
}

// The packages, tests and benchmarks of each go test in the documents exist in one of the modules.
func TestDocumentedGoTests(t *testing.T) {
	found := 0
	for _, c := range doccmd.Commands(t, "../..", "go") {
		i := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "./") && a != "./..." })
		if i < 0 || c.Args[0] != "test" {
			continue
		}
		found++
		var dirs []string
		for _, module := range []string{".", "dra", "operator", "kubectl", "registry"} {
			if dir := filepath.Join("../..", module, c.Args[i]); len(tests(t, dir)) > 0 {
				dirs = append(dirs, dir)
			}
		}
		if len(dirs) != 1 {
			t.Errorf("%s: found the tests %q, want those of one module", c, dirs)
			continue
		}
		for i, arg := range c.Args {
			if arg == "-run" || arg == "-bench" {
				for _, name := range strings.Split(c.Args[i+1], "|") {
					expect(t, c, name, tests(t, dirs[0]))
				}
			}
		}
	}
	if found < 7 {
		t.Errorf("found %d commands with a package, want 7 or more", found)
	}
}

// expect checks that a pattern matches one of the names.
func expect(t *testing.T, c doccmd.Command, pattern string, names []string) {
	t.Helper()
	if !slices.ContainsFunc(names, regexp.MustCompile(pattern).MatchString) {
		t.Errorf("%s: found nothing that matches %s among %d names", c, pattern, len(names))
	}
}

// stories returns the files of stories in a directory of test/kernel.
func stories(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"/*.txt", "/*/*.txt"} {
		for _, path := range must.Value(filepath.Glob("../../test/kernel/" + dir + pattern))(t) {
			names = append(names, filepath.Base(path))
		}
	}
	return names
}

// tests returns the names of the tests and benchmarks in a directory.
func tests(t *testing.T, dir string) []string {
	t.Helper()
	return matches(t, `(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`, filepath.Join(dir, "*_test.go"))
}

// matches returns what the group of a pattern matches in files.
func matches(t *testing.T, pattern, glob string) (names []string) {
	t.Helper()
	for _, path := range must.Value(filepath.Glob(glob))(t) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, path), -1) {
			names = append(names, m[1])
		}
	}
	return names
}
