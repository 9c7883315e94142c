package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The whole output of `devices -o json` on nodes that were recorded from a kernel. The golden
// files are written by hand: their keys are an interface. The families' own tests read the other boards.
func TestDevicesOfKernel(t *testing.T) {
	for _, name := range []string{"virtual-function", "port-released"} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			must.Succeed(t, board.Unfold(root, "../../testdata/sysfs/kernel-6.1-"+name+".txtar"))
			want := must.Value(os.ReadFile(filepath.Join("testdata/devices", name+".json")))(t)
			stdout, stderr, code := cmdtest.Output(t, "devices", "--scan", "-o", "json",
				"--sysfs-root", root+"/sys", "--dev-root", root+"/dev", "--host-dev-root", "/dev", "--pod-resources-socket", "/nonexistent/kubelet.sock")
			compare.Equal(t, fmt.Sprintf("exit code, with stderr %s", stderr), 0, code)
			compare.Values(t, "printed", string(want), stdout)
		})
	}
}
