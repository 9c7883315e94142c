package deviceplugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// In other modes the hook has no effect, which is logged, unless the node's annotation may choose
// mode region.
func TestHookWithoutEffect(t *testing.T) {
	t.Parallel()
	dir := cmdtest.ShortDir(t)
	r, node, _ := cmdtest.Serve(t, "--mode=regiondevel", "--cdi-dir", dir, "--programming-hook=/opt/bin/accelerator-fpga")
	if line := r.Await("config.notice"); line["flag"] != "programming-hook" || line["mode"] != "regiondevel" {
		t.Errorf("config.notice = %v, want flag programming-hook, mode regiondevel", line)
	}
	must.Succeed(t, node.Plug(cardB))
	patient.Await(t, "plugged", func() error {
		spec, err := os.ReadFile(filepath.Join(dir, "fpga.intel.com-fpga.json"))
		if err == nil && strings.Contains(string(spec), "hooks") {
			err = fmt.Errorf("found a hook, want none: %s", spec)
		}
		return err
	})
}
