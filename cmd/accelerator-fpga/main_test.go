package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/doccmd"
	"b-com.com/accelerator-device-plugin/test/must"
)

// node is a directory with two bitstreams, and the path of a store that doesn't exist yet.
type node struct {
	store, gbs, aocx string
}

func newNode(t *testing.T) node {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755))
	n := node{filepath.Join(dir, "fpga"), filepath.Join(dir, "nlb_400.gbs"), filepath.Join(dir, "vadd.aocx")}
	gbs := bits.GBS(bits.Metadata(bits.Interface, bits.AFU), make([]byte, 3<<20))
	aocx := bits.AOCX(bits.Hash, "pac_a10", bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), make([]byte, 2048)))
	for path, data := range map[string][]byte{n.gbs: gbs, n.aocx: aocx} {
		must.Succeed(t, os.WriteFile(path, data, 0o644))
	}
	return n
}

// run runs a command line in which upper-case words stand for paths.
func (n node) run(t *testing.T, line string) (stdout, stderr string, code int) {
	t.Helper()
	line = strings.NewReplacer("STORE", n.store, "GBS", n.gbs, "AOCX", n.aocx).Replace(line)
	var out, errs bytes.Buffer
	code = run(t.Context(), strings.Fields(line), &out, &errs)
	return out.String(), errs.String(), code
}

// paths replaces the node's paths in the output.
func (n node) paths(text string) string {
	return strings.NewReplacer(n.store, "STORE", n.gbs, "GBS", n.aocx, "AOCX").Replace(text)
}

func TestInfoInstallList(t *testing.T) {
	n := newNode(t)
	for _, step := range []struct{ line, want string }{
		{"info GBS", `File       GBS
Format     gbs
Interface  ce48969398f05f33946d560708be108a
AFU        d8424dc4a4a3c413f89e433683f9040b
Size       3145728 (3.0 MiB)
`},
		{"info AOCX", `File       AOCX
Format     aocx
Interface  ce48969398f05f33946d560708be108a
AFU        18b79ffa2ee54aa096ef4230dafacb5f
Hash       0123456789abcdef0123456789abcdef01234567
Board      pac_a10
Size       2048 (2.0 KiB)
`},
		{"info AOCX -o json", `{
  "format": "aocx",
  "interfaceId": "ce48969398f05f33946d560708be108a",
  "afuId": "18b79ffa2ee54aa096ef4230dafacb5f",
  "size": 2048,
  "hash": "0123456789abcdef0123456789abcdef01234567",
  "board": "pac_a10"
}
`},
		{"-o json info GBS", `{
  "format": "gbs",
  "interfaceId": "ce48969398f05f33946d560708be108a",
  "afuId": "d8424dc4a4a3c413f89e433683f9040b",
  "size": 3145728
}
`},
		{"list --store STORE", "no bitstreams in STORE\n"},
		{"list --store STORE -o json", "[]\n"},
		{"install --store STORE GBS --dry-run", "dry run, nothing changed: would install STORE/ce48969398f05f33946d560708be108a/d8424dc4a4a3c413f89e433683f9040b.gbs\n"},
		{"list --store STORE -o json", "[]\n"},
		{"install --store STORE GBS", "installed STORE/ce48969398f05f33946d560708be108a/d8424dc4a4a3c413f89e433683f9040b.gbs\n"},
		{"install AOCX -o json --store STORE", `{
  "format": "aocx",
  "interfaceId": "ce48969398f05f33946d560708be108a",
  "afuId": "18b79ffa2ee54aa096ef4230dafacb5f",
  "size": 2048,
  "hash": "0123456789abcdef0123456789abcdef01234567",
  "board": "pac_a10",
  "path": "STORE/ce48969398f05f33946d560708be108a/0123456789abcdef0123456789abcdef01234567.aocx",
  "installed": true
}
`},
		{"install GBS --force --store STORE", "installed STORE/ce48969398f05f33946d560708be108a/d8424dc4a4a3c413f89e433683f9040b.gbs\n"},
		{"list --store STORE", `INTERFACE                         AFU OR HASH                               FORMAT  SIZE     BOARD
ce48969398f05f33946d560708be108a  0123456789abcdef0123456789abcdef01234567  aocx    2.0 KiB  pac_a10
ce48969398f05f33946d560708be108a  d8424dc4a4a3c413f89e433683f9040b          gbs     3.0 MiB  -
`},
	} {
		stdout, stderr, code := n.run(t, step.line)
		if diff := cmp.Diff(step.want, n.paths(stdout)); diff != "" || stderr != "" || code != 0 {
			t.Errorf("%s: exit code %d, stderr %q (-want +got):\n%s", step.line, code, stderr, diff)
		}
	}
}

func TestListRefused(t *testing.T) {
	n := newNode(t)
	n.run(t, "install --store STORE GBS")
	file := filepath.Join(n.store, bits.Interface, bits.AFU+".gbs")
	must.Succeed(t, os.Chmod(file, 0o666))
	stdout, _, code := n.run(t, "list --store STORE")
	if want := "refused: " + file + ": found mode 0666, want it not writable by group and others: chmod go-w " + file + "\n"; !strings.HasSuffix(stdout, want) || code != 0 {
		t.Errorf("exit code %d, %q, want %q", code, stdout, want)
	}
	stdout, _, code = n.run(t, "list --store STORE -o json")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil || code != 0 || len(rows) != 1 || rows[0]["path"] != file || rows[0]["error"] == nil {
		t.Errorf("exit code %d, %v, %s", code, err, stdout)
	}
}

// File contents and names are escaped for terminals.
func TestEscapes(t *testing.T) {
	n := newNode(t)
	gbs := bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), make([]byte, 2048))
	must.Succeed(t, os.WriteFile(n.aocx, bits.AOCX(bits.Hash, "\x1b[31m\u009b2J\tboard\xff", gbs), 0o644))
	n.run(t, "install --store STORE AOCX")
	must.Succeed(t, os.WriteFile(filepath.Join(n.store, bits.Interface, "\x1b]0;\u009b\n.gbs"), nil, 0o644))
	for _, line := range []string{"info AOCX", "info -o json AOCX", "list --store STORE", "list --store STORE -o json"} {
		stdout, _, code := n.run(t, line)
		text := strings.ReplaceAll(stdout, "\n", "")
		if code != 0 || !strings.Contains(text, "board") || terminal.Escape(text) != text {
			t.Errorf("%s: exit code %d, %q, want it escaped", line, code, text)
		}
	}
}

// An error is a single line on stderr that contains the command and the input.
func TestErrors(t *testing.T) {
	n := newNode(t)
	n.run(t, "install --store STORE GBS")
	broken := filepath.Join(filepath.Dir(n.store), "broken.gbs")
	must.Succeed(t, os.WriteFile(broken, []byte("\x1b[31m\nred, and more than twenty bytes"), 0o644))
	for _, test := range []struct {
		line string
		code int
		want string
	}{
		{"", 2, "accelerator-fpga: command: found none (see accelerator-fpga --help)\n"},
		{"lst", 2, "accelerator-fpga: unknown command \"lst\", did you mean list? (see accelerator-fpga --help)\n"},
		{"list x", 2, "accelerator-fpga list: argument: found \"x\", want none (see accelerator-fpga list --help)\n"},
		{"info", 2, "accelerator-fpga info: FILE: found 0, want one (see accelerator-fpga info --help)\n"},
		{"install", 2, "accelerator-fpga install: FILE: found 0, want one (see accelerator-fpga install --help)\n"},
		{"install GBS AOCX", 2, "accelerator-fpga install: FILE: found 2, want one (see accelerator-fpga install --help)\n"},
		{"info GBS -o yaml", 2, "accelerator-fpga info: --output: found \"yaml\", want json (see accelerator-fpga info --help)\n"},
		{"list --store=", 2, "accelerator-fpga list: --store: found \"\", want a directory (see accelerator-fpga list --help)\n"},
		{"list --device 3b:00.0", 2, "accelerator-fpga list: unknown flag: --device (see accelerator-fpga list --help)\n"},
		{"info none.gbs", 1, "accelerator-fpga info: stat none.gbs: no such file or directory\n"},
		{"info " + broken, 1, "accelerator-fpga info: " + broken + `: first bytes: found "\x1b[31m\nred, and m", want "XeonFPGA\xb7GBSv001" as in a GBS` + "\n"},
		{"install --store STORE GBS", 1, "accelerator-fpga install: STORE/" + bits.Interface + "/" + bits.AFU + ".gbs: file already exists, want no file there: --force replaces it\n"},
	} {
		stdout, stderr, code := n.run(t, test.line)
		if diff := cmp.Diff(test.want, n.paths(stderr)); diff != "" || code != test.code || stdout != "" {
			t.Errorf("%q: exit code %d, want %d; stdout %q; stderr (-want +got):\n%s", test.line, code, test.code, stdout, diff)
		}
	}
}

// The commands and flags in the documentation and in the help exist.
func TestDocumentedCommands(t *testing.T) {
	const program = "accelerator-fpga"
	doccmd.Check(t, 90, append(doccmd.Commands(t, "../..", program), doccmd.Examples(newRoot(), program)...), newRoot)
}

// buildIn builds the program the way a release does, and returns its path.
func buildIn(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "accelerator-fpga")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v1", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// The binary is static and small, because it is the only file that is installed on hosts.
func TestBinary(t *testing.T) {
	path := buildIn(t, t.TempDir())
	info, err := os.Stat(path)
	if err != nil || info.Size() > 8_000_000 {
		t.Errorf("%v, %v, want at most 8 MB", info.Size(), err)
	}
	out, err := exec.Command(path, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "accelerator-fpga v1 go") {
		t.Errorf("%q, %v", out, err)
	}
	failing := exec.Command(path, "info", "none.gbs")
	if err := failing.Run(); failing.ProcessState.ExitCode() != 1 {
		t.Errorf("info without a file: %v, want exit code 1", err)
	}
}
