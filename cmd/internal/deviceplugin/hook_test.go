package deviceplugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// hooked has the command lines of the hooks in a CDI spec, by device id; "": none.
type hooked map[string]string

// hooksIn reads the hooks of the CDI spec in dir.
func hooksIn(t *testing.T, dir string) hooked {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "fpga.intel.com-fpga.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var file struct {
		Devices []struct {
			Name           string
			ContainerEdits struct {
				Hooks []struct {
					HookName, Path string
					Args           []string
					Timeout        int
				}
			}
		}
	}
	if err := errors.Join(err, json.Unmarshal(text, &file)); err != nil {
		t.Fatal(err)
	}
	hooks := hooked{}
	for _, d := range file.Devices {
		hooks[d.Name] = ""
		for _, h := range d.ContainerEdits.Hooks {
			if h.HookName != "createRuntime" || h.Timeout != 110 {
				t.Errorf("hook %+v, want createRuntime with timeout 110", h)
			}
			hooks[d.Name] += h.Path + ": " + strings.Join(h.Args, " ")
		}
	}
	return hooks
}

// awaitHooks blocks until the CDI spec in dir has these hooks.
func awaitHooks(t *testing.T, when, dir string, want hooked) {
	t.Helper()
	patient.Await(t, when, func() error {
		if diff := cmp.Diff(want, hooksIn(t, dir)); diff != "" {
			return fmt.Errorf("hooks (-want +got):\n%s", diff)
		}
		return nil
	})
}

// Only devices of mode region have the hook, with any former mode. The answer of Allocate does not depend on
// the hook.
func TestHookFollowsTheMode(t *testing.T) {
	t.Parallel()
	on := withCDI(t)
	c := prepareCluster(t, func(cfg *config.Config) {
		on(cfg)
		cfg.ProgrammingHook, cfg.ProgrammingHookArgs = "/opt/bin/accelerator-fpga", []string{"--store=/s"}
	})
	c.do(c.node.Plug(cardA))
	c.do(c.node.Plug(cardB))
	const path = "/opt/bin/accelerator-fpga: accelerator-fpga hook --device "
	both := hooked{"3b:00.0": path + "3b:00.0 --store=/s", "5e:00.0": path + "5e:00.0 --store=/s"}
	c.ask("regiondevel")
	c.run()
	awaitHooks(t, "regiondevel", c.cfg.CDIDir, hooked{"3b:00.0": "", "5e:00.0": ""})
	c.ask("region")
	awaitHooks(t, "region", c.cfg.CDIDir, both)
	c.awaitOffers("region", bothCards["region"])
	c.checkNamed("region", regionA, map[string]string{"com.intel.fpga.mode": "fpga.intel.com/region"}, "3b:00.0")
	c.do(c.node.Unplug(cardB.Address))
	awaitHooks(t, "a card out", c.cfg.CDIDir, hooked{"3b:00.0": both["3b:00.0"]})
	c.do(c.node.Plug(cardB))
	awaitHooks(t, "back", c.cfg.CDIDir, both)
}

// In other modes the hook has no effect, which is logged, unless the node's annotation may choose
// mode region.
func TestHookWithoutEffect(t *testing.T) {
	t.Parallel()
	dir := cmdtest.ShortDir(t)
	r, node, _ := cmdtest.Serve(t, "--mode=regiondevel", "--cdi-dir", dir, "--programming-hook=/opt/bin/accelerator-fpga")
	if line := r.Await("config.notice"); line["flag"] != "programming-hook" || line["mode"] != "regiondevel" {
		t.Errorf("config.notice = %v, want flag programming-hook, mode regiondevel", line)
	}
	if err := node.Plug(cardB); err != nil {
		t.Fatal(err)
	}
	awaitHooks(t, "plugged", dir, hooked{"5e:00.0": ""})
}
