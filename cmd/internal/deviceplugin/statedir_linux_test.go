package deviceplugin_test

import (
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// While the state directory's file system hangs, cards are published and allocated under their current names. Anything
// that must be written fails, and takes effect once the file system responds. The daemon still exits in time.
func TestStateDirHangs(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, nil)
	d.awaitLine("control.served")
	d.plug(cardA)
	d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true})
	release := privatedirtest.Hang(t, d.cfg.StateDir)

	d.loader.Config.Resources = []offer.Rule{{Resource: "example.com/lab", Match: offer.Match{PCIAddress: "5e:00.0"}}}
	d.hangups <- syscall.SIGHUP
	text, code := d.ask("cordon", "3b:00.0", "--why", "x", "--by", "alice")
	if want := d.cfg.StateDir + ": no answer: the file system hangs"; code != 1 || !strings.Contains(text, want) {
		t.Errorf("cordon: exit code %d, %s, want %s", code, text, want)
	}
	d.plug(cardB)
	d.await("another card", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	must.Value(d.kubelet.Allocate(t.Context(), testResource, "3b:00.0"))(t)
	d.do(d.node.Unplug(cardB.Address))
	d.await("pulled", health{"3b:00.0": true, "3b:00.0-p1": true})
	d.plug(cardB)
	d.await("plugged again", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	d.hangups <- syscall.SIGHUP // the main loop is still running
	compare.Contains(t, "/readyz", "the file system hangs", d.get("/readyz"))

	release()
	d.await("the rule takes effect", health{"3b:00.0": true, "3b:00.0-p1": true})
	if text, code := d.ask("cordon", "3b:00.0", "--why", "x", "--by", "alice"); code != 0 {
		t.Errorf("cordon: exit code %d, %s", code, text)
	}
	d.await("cordoned", health{"3b:00.0": false, "3b:00.0-p1": false})
	privatedirtest.Hang(t, d.cfg.StateDir)
	d.do(d.stop())
}
