package chart_test

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	release = "fpga"
	space   = "accelerators"
)

// chart is a chart of deploy/helm.
type chart struct {
	dir  string
	data string // directory of the sets of values, and of the golden files with their rendered objects
	docs string // page with the table of values
}

var (
	plugin   = chart{"../../deploy/helm/accelerator-device-plugin", "testdata/plugin", "../../docs/chart.md"}
	operator = chart{"../../deploy/helm/accelerator-operator", "testdata/operator", "../../docs/mappings.md"}
)

// charts runs a subtest for each chart.
func charts(t *testing.T, run func(t *testing.T, c chart)) {
	for _, c := range []chart{plugin, operator} {
		t.Run(filepath.Base(c.data), func(t *testing.T) { run(t, c) })
	}
}

// helmPath is the path of the helm that go.mod pins.
var helmPath string

func TestMain(m *testing.M) {
	flag.Parse()
	build := exec.Command("go", "tool", "-n", "helm") // builds helm unless it is in the cache; the first time this takes minutes
	build.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath")
	build.Stderr = os.Stderr
	path, err := build.Output()
	if err != nil {
		log.Fatalln("go tool -n helm:", err)
	}
	helmPath = strings.TrimSpace(string(path))
	home, err := os.MkdirTemp("", "helm")
	if err != nil {
		log.Fatalln(err)
	}
	// Helm must not use the plugins, repositories or cluster of the user who runs the test.
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		os.Setenv(name, filepath.Join(home, name))
	}
	os.Setenv("KUBECONFIG", filepath.Join(home, "none"))
	code := m.Run()
	os.RemoveAll(home)
	os.Exit(code)
}

// helm runs helm. It returns stdout; an error contains stderr.
func helm(args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(helmPath, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// render returns the output of `helm template` with values in YAML.
func (c chart) render(t *testing.T, values string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	write(t, file, values)
	return helm(append([]string{"template", release, c.dir, "--namespace", space, "--values", file}, args...)...)
}

// rendered returns the output of render, which must not fail.
func (c chart) rendered(t *testing.T, values string, args ...string) string {
	t.Helper()
	return must.Value(c.render(t, values, args...))(t)
}

func read(t *testing.T, path string) string {
	t.Helper()
	return string(must.Value(os.ReadFile(path))(t))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
}

// difference returns the lines that are only in a or only in b, with two lines around them. It counts the other lines, so
// that a and the difference determine b.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	common := make([][]int, len(x)+1) // the most lines that x[i:] and y[j:] share, in order
	for i := len(x); i >= 0; i-- {
		common[i] = make([]int, len(y)+1)
		for j := len(y) - 1; j >= 0 && i < len(x); j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if x[i] == y[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var lines []string
	for i, j := 0, 0; i < len(x) || j < len(y); {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			lines = append(lines, " "+x[i])
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "-"+x[i])
			i++
		default:
			lines = append(lines, "+"+y[j])
			j++
		}
	}
	var out strings.Builder
	equal, in := 0, ""
	for i, line := range lines {
		if _, source, ok := strings.Cut(line, "# Source: "); ok {
			in = " in " + source
		}
		near := lines[max(i-2, 0):min(i+3, len(lines))]
		if !slices.ContainsFunc(near, func(l string) bool { return l[0] != ' ' }) {
			equal++
			continue
		}
		if equal > 0 {
			fmt.Fprintf(&out, "@@ %d equal lines%s\n", equal, in)
		}
		equal = 0
		if line == " " { // no space at the end of a line
			line = ""
		}
		out.WriteString(line + "\n")
	}
	fmt.Fprintf(&out, "@@ %d equal lines\n", equal)
	return out.String()
}
