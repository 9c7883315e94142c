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
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// injected maps device IDs to the nodes below /dev that they have in the CDI spec. It is nil if there is no spec.
type injected map[string][]string

func withCDI(t *testing.T) func(*config.Config) {
	dir := filepath.Join(t.TempDir(), "cdi")
	return func(c *config.Config) { c.CDIDir = dir }
}

func (d *testDaemon) spec() (injected, error) {
	text, err := os.ReadFile(filepath.Join(d.cfg.CDIDir, "fpga.intel.com-fpga.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var file struct {
		Kind    string
		Devices []struct {
			Name           string
			ContainerEdits struct {
				DeviceNodes []struct{ Path, HostPath, Permissions string }
			}
		}
	}
	if err := errors.Join(err, json.Unmarshal(text, &file)); err != nil {
		return nil, err
	}
	if file.Kind != "fpga.intel.com/fpga" {
		return nil, errors.New("kind " + file.Kind)
	}
	nodes := injected{}
	for _, device := range file.Devices {
		for _, n := range device.ContainerEdits.DeviceNodes {
			name, err := filepath.Rel("/dev", n.HostPath)
			if err != nil || n.Path != n.HostPath || n.Permissions != "rw" {
				return nil, errors.New("strange node: " + string(text))
			}
			nodes[device.Name] = append(nodes[device.Name], name)
		}
	}
	return nodes, nil
}

func (d *testDaemon) awaitSpec(when string, want injected) {
	d.t.Helper()
	patient.Await(d.t, when, func() error {
		got, err := d.spec()
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = fmt.Errorf("CDI spec (-want +got):\n%s", diff)
		}
		return err
	})
}

// A card returns with another number, so the container that holds it gets the new device node if it is restarted. The
// number stays reserved for the container even after the card has been removed once more and the daemon has restarted.
func TestNodeOfRestartedContainer(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, withCDI(t))
	d.run()
	one, third := cardA, cardB
	one.Ports, third.Address = 1, "0000:af:00.0"
	d.plug(one)
	d.await("plugged", health{"3b:00.0": true})
	d.hold("job", testResource, "3b:00.0") // dfl-port.0
	d.do(d.node.Unplug(one.Address))
	d.await("pulled", health{"3b:00.0": false})
	d.plug(cardB) // dfl-port.0
	d.plug(one)   // dfl-port.1
	d.await("back", health{"3b:00.0": false, "5e:00.0": false})
	d.awaitRefused("back", testResource, "3b:00.0", "node-changed")
	d.awaitSpec("back", injected{"3b:00.0": {"dfl-port.1"}})
	d.do(d.node.Unplug(one.Address))
	d.await("pulled again", health{"3b:00.0": false, "5e:00.0": false})
	d.do(d.stop())
	d.run()
	d.await("restarted", health{"3b:00.0": false, "5e:00.0": false})
	d.plug(third) // dfl-port.1
	d.await("third card", health{"3b:00.0": false, "5e:00.0": false, "af:00.0": false})
	d.awaitRefused("third card", testResource, "af:00.0", "node-in-use")
}

// The spec follows the mode. Even during a change, it contains every device whose nodes aren't shared with another
// device, because containers can start at any time. A card's ports may be missing, because its region has the same
// nodes.
func TestCDIFollowsTheMode(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, withCDI(t))
	c.plug(cardA, cardB)
	c.ask("af")
	c.run()
	ports := injected{"3b:00.0": {"dfl-port.0"}, "3b:00.0-p1": {"dfl-port.1"}, "5e:00.0": {"dfl-port.2"}}
	c.awaitSpec("af", ports)

	ended, away := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for tick := time.NewTicker(100 * time.Microsecond); ; {
			select {
			case <-ended:
				tick.Stop()
				away <- n
				return
			case <-tick.C:
				if nodes, err := c.spec(); len(nodes["5e:00.0"]) == 0 || err != nil {
					n++
				}
			}
		}
	}()
	for range 3 {
		c.ask("region")
		c.awaitSpec("region", injected{"3b:00.0": {"dfl-port.0", "dfl-port.1"}, "5e:00.0": {"dfl-port.2"}})
		c.ask("regiondevel")
		c.awaitSpec("regiondevel", injected{"3b:00.0": {"dfl-port.0", "dfl-port.1", "dfl-fme.0"}, "5e:00.0": {"dfl-port.2", "dfl-fme.1"}})
		c.ask("af")
		c.awaitSpec("af", ports)
	}
	close(ended)
	compare.Equal(t, "times that the device was away, or the spec broken", 0, <-away)
	c.ask("pool")
	c.awaitSpec("pool", nil)
	c.ask("single")
	c.awaitSpec("single", ports)
}

// In other modes the hook has no effect, which is logged unless the node's annotation could switch to region mode.
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
