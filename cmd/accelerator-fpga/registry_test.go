package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// For pull and push, the process replaces itself with another program, either the one in its own directory or otherwise
// the one in PATH.
func TestRegistryProgram(t *testing.T) {
	dir, inPath := t.TempDir(), t.TempDir()
	self := buildIn(t, dir)
	run := func() (string, int) {
		cmd := exec.CommandContext(t.Context(), self, "--store", "/s", "pull", "-q", "x/y", "--ca-file=c", "--help")
		cmd.Env = []string{"PATH=" + inPath}
		out, _ := cmd.CombinedOutput() // an error would only be the exit code
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := run()
	compare.Equal(t, "exit code without the program", 1, code)
	compare.Equal(t, "error", "accelerator-fpga pull: accelerator-fpga-registry: not found in "+dir+" or in PATH; "+
		"copy the program of this version there: make build-registry builds it in bin/, and the image accelerator-fpga-registry contains it\n", out)
	for _, place := range []string{inPath, dir} {
		must.Succeed(t, os.WriteFile(filepath.Join(place, registryProgram), []byte("#!/bin/sh\necho "+place+" \"$@\"\nexit 7\n"), 0o755))
		out, code := run()
		compare.Equal(t, "output", place+" pull --store /s --quiet=true x/y --ca-file=c --help\n", out)
		compare.Equal(t, "exit code", 7, code)
	}
	must.Succeed(t, os.Chmod(filepath.Join(dir, registryProgram), 0o644))
	out, code = run()
	compare.Equal(t, "exit code for a file that is no program", 1, code)
	compare.Contains(t, "error", "permission denied", out)
}
