package deviceplugin_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// times matches the times in a cordon's line.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d|until \d\d:\d\d`)

// ask runs a command that asks the daemon. It returns the output with all times replaced by TIME.
func (d *testDaemon) ask(args ...string) (text string, code int) {
	d.t.Helper()
	out, errs, code := cmdtest.Output(d.t, append(args, "--socket", d.cfg.Socket)...)
	text = times.ReplaceAllString(out+errs, "TIME")
	return strings.ReplaceAll(text, d.cfg.Socket, "SOCKET"), code
}

// shows checks that the devices command prints this text.
func (d *testDaemon) shows(want string) {
	d.t.Helper()
	table, _ := d.ask("devices")
	compare.Contains(d.t, "devices", want, table)
}

func TestCordon(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, func(c *config.Config) { c.RecoveryHold = config.Defaults().RecoveryHold })
	d.awaitLine("control.served")
	d.plug(cardA)
	d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true})
	d.hold("job", testResource, "3b:00.0")
	expect := func(want string, code int, args ...string) {
		t.Helper()
		got, c := d.ask(args...)
		if diff := cmp.Diff(want, got); diff != "" || c != code {
			t.Errorf("%s: exit code %d, want %d, output (-want +got):\n%s", args[0], c, code, diff)
		}
	}
	// If an address is wrong, nothing is cordoned, because otherwise the intended card would stay in service.
	for _, absent := range []string{"5e:00.0", "3b:00.0-p2"} {
		expect("accelerator-device-plugin: DEVICE: found \""+absent+"\", want a device of this node (3b:00.0, 3b:00.0-p1), or --absent to cordon the next card in this slot\n",
			1, "cordon", "3b:00.0", absent, "--why", "x")
	}
	expect(`3b:00.0 cordoned by alice since TIME: replace the fan
  3b:00.0 is out of service, still in use by default/job/main
  3b:00.0-p1 is out of service, free
5e:00.0 cordoned by alice since TIME: replace the fan
  no device has this address now: the cordon applies to the next card in this slot
`, 0, "cordon", "3B:00.0", "5e:00.0", "--absent", "--why", "replace the fan", "--by", "alice")
	d.await("cordoned", health{"3b:00.0": false, "3b:00.0-p1": false})
	compare.Error(t, "Allocate", "cordoned", compare.ErrorOf(d.kubelet.Allocate(t.Context(), testResource, "3b:00.0-p1")))
	d.plug(cardB)
	d.await("the card that comes", health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": false})

	table, _ := d.ask("devices")
	_, below, _ := strings.Cut(table, "5e:00.0 ")
	_, below, _ = strings.Cut(below, "\n")
	want := "3b:00.0 cordoned by alice since TIME: replace the fan\n5e:00.0 cordoned by alice since TIME: replace the fan\n"
	if below != want || strings.Count(table, " unhealthy ") != 3 {
		t.Errorf("devices prints\n%s", table)
	}
	expect("accelerator-device-plugin: SOCKET: device: found 3b:00.0-p1, want 3b:00.0: the whole card is cordoned\n", 1,
		"uncordon", "3b:00.0-p1")

	// Another daemon, as in an upgrade, followed by a restart.
	peer := d.peer()
	peer.cfg.Socket = filepath.Join(cmdtest.ShortDir(t), "peer.sock")
	peer.run()
	peer.awaitLine("control.served")
	peer.await("the peer has the cordons", health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": false})
	if _, code := peer.ask("uncordon", "5e:00.0"); code != 0 {
		t.Errorf("exit code %d", code)
	}
	d.await("uncordoned by the peer, without recovery hold", health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": true})
	d.awaitLine("device.uncordoned", "5e:00.0", "reason:file")
	d.do(peer.stop())
	d.do(d.stop())
	d.run()
	d.awaitLine("control.served")
	d.await("after a restart", health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": true})

	expect(`3b:00.0 cordoned by bob since TIME TIME: dust
  3b:00.0 is out of service, still in use by default/job/main
  3b:00.0-p1 is out of service, free
`, 0, "cordon", "3b:00.0", "--why", "dust", "--by", "bob", "--for", "2s")
	d.await("over by itself", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	d.awaitLine("device.uncordoned", "3b:00.0", "why:dust", "reason:expired")

	if _, code := d.ask("cordon", "5e:00.0", "--why", "x", "--by", "carol"); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, device := range []string{"3b:00.0-p1", "3b:00.0"} {
		if _, code := d.ask("cordon", device, "--why", "y", "--by", "erin"); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	expect("ended: 3b:00.0 cordoned by erin since TIME: y\n  3b:00.0 is healthy, in use by default/job/main\n"+
		"  3b:00.0-p1 is still out of service (3b:00.0-p1 cordoned by erin since TIME: y), free\n", 0, "uncordon", "3b:00.0", "--by", "erin")
	expect("ended: 3b:00.0-p1 cordoned by erin since TIME: y\n  3b:00.0-p1 is healthy, free\n", 0, "uncordon", "3b:00.0-p1", "--by", "erin")
	expect("ended: 5e:00.0 cordoned by carol since TIME: x\n  5e:00.0 is healthy, free\n", 0, "uncordon", "5e:00.0", "--by", "dave")
	d.awaitLine("device.uncordoned", "5e:00.0", "by:dave", "reason:command")
	expect("accelerator-device-plugin: SOCKET: device 5e:00.0 is not cordoned, and no other device is\n", 1, "uncordon", "5e:00.0")
	expect("accelerator-device-plugin: SOCKET: why: found \"a\\nb\", want printable characters\n", 1, "cordon", "5e:00.0", "--why", "a\nb")
}

// Any function in a group stands for the device, even if the device's ID is another function's address.
func TestCordonMember(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, func(c *config.Config) {
		c.Families = []string{"vfio"}
		c.Resources = []offer.Rule{{Resource: testResource, Match: offer.Match{Family: "vfio"}}}
	})
	d.awaitLine("control.served")
	d.do(d.node.PlugBoard(must.Value(simnode.BoardNamed("one-group"))(t), "0000:3b:00.0"))
	d.await("plugged", health{"3b:00.0": true})
	for _, step := range []struct{ verb, want string }{
		{"cordon", "3b:00.2 cordoned by alice since TIME: x\n  3b:00.0 is out of service, free\n"},
		{"uncordon", "ended: 3b:00.2 cordoned by alice since TIME: x\n  3b:00.0 is healthy, free\n"},
	} {
		args := []string{step.verb, "3b:00.2", "--by", "alice"}
		if step.verb == "cordon" {
			args = append(args, "--why", "x")
		}
		if got, code := d.ask(args...); got != step.want || code != 0 {
			t.Errorf("%s: exit code %d, output %q, want %q", step.verb, code, got, step.want)
		}
	}
}

// The daemon doesn't start if the cordons file can't be read.
func TestUnreadableCordons(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, nil)
	d.do(writeOwn(filepath.Join(d.cfg.StateDir, "cordons.json"), "{"))
	d.run()
	patient.Await(t, "the node is taken", func() error {
		if d.logs.FilterField(logevent.OwnerTaken).Len() == 0 {
			return errors.New("found no line")
		}
		return nil
	})
	compare.Error(t, "stop", "--state-dir: "+d.cfg.StateDir+"/cordons.json: unexpected EOF", d.stop())
}

// writeOwn writes a file, and creates the directory for it.
func writeOwn(path, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
}

// The daemon notices immediately if its state directory is removed, because it then has neither the node lock nor, in a
// pod, a place for cordons.
func TestVanishedStateDir(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, nil)
	d.awaitLine("control.served")
	d.plug(cardA)
	d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true})
	d.awaitReady()
	if text, _ := d.ask("devices"); strings.Contains(text, "--state-dir") {
		t.Errorf("before, devices prints\n%s", text)
	}
	d.do(os.RemoveAll(d.cfg.StateDir))
	lock := filepath.Join(d.cfg.StateDir, "owner-devicePlugin.lock")
	if text, code := d.ask("devices"); !strings.Contains(text, "--state-dir: "+lock+" was removed or replaced while this daemon runs") || code != 0 {
		t.Errorf("exit code %d, devices prints\n%s", code, text)
	}
	if got := d.get("/readyz"); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, lock+" was removed") {
		t.Errorf("/readyz: %s", got)
	}
}
