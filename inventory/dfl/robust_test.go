package dfl_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
	"b-com.com/accelerator-device-plugin/test/must"
)

var (
	idPattern   = regexp.MustCompile(`^([0-9a-f]{32})?$`)
	namePattern = regexp.MustCompile(`^dfl-port\.[0-9]+$`)

	regionPattern = regexp.MustCompile(`^region[0-9]+$`)
	nodePattern   = regexp.MustCompile(`^dfl-(port|fme)\.[0-9]+$`)

	pciIDPattern = regexp.MustCompile(`^([0-9a-f]{4}(:[0-9a-f]{4}){3})?$`)
)

// rows contains the names of the health table's rows.
var rows = func() map[string]bool {
	names := map[string]bool{}
	for _, r := range dfl.Family(port.PerPort).Rows() {
		names[r.Name] = true
	}
	return names
}()

var units = []port.Kind{port.PerPort, port.PerFME, port.PerFMEWithNode}

// checkReading returns an error if the reading breaks a rule that must hold for every tree.
func checkReading(r inventory.Reading, unit port.Kind) error {
	for _, p := range r.Units {
		switch {
		case !hasValidNames(p, unit):
			return errors.New("a port or region with a wrong name or wrong nodes")
		case p.Incarnation == 0:
			return errors.New("a port without incarnation")
		case !idPattern.MatchString(p.AFUID) || !idPattern.MatchString(p.InterfaceID):
			return errors.New("an id that is not valid")
		case !p.AFUIDKnown && p.AFUID != "" || !p.InterfaceIDKnown && p.InterfaceID != "":
			return errors.New("an id that is marked as not known")
		case p.PortIDKnown != (p.PortID >= 0) || p.PortID > 255:
			return errors.New("a port id out of range")
		case p.NUMANode < -1 || p.NUMANode > 1<<16:
			return errors.New("a NUMA node out of range")
		case (p.Parent == "") != (len(p.ParentNodes) == 0):
			return errors.New("a parent without node")
		case !p.PortIDKnown && len(p.Conditions) == 0:
			return errors.New("healthy without a port id")
		case !pciIDPattern.MatchString(p.PCIID):
			return errors.New("a PCI id that is not valid")
		}
		seen := map[string]bool{}
		for _, c := range p.Conditions {
			if c.Reason == "" || c.Health == inventory.Healthy {
				return errors.New("a condition without reason or severity")
			}
			if seen[c.Reason] || c.Row != "" && !rows[c.Row] {
				return fmt.Errorf("a condition that occurs twice, or has no row: %+v", c)
			}
			seen[c.Reason] = true
		}
		for _, f := range p.Files {
			if seen[f.Name] || f.Lost == inventory.Healthy || !rows[f.Row] {
				return fmt.Errorf("a file that occurs twice, or has no row: %+v", f)
			}
			seen[f.Name] = true
		}
	}
	return nil
}

// hasValidNames reports whether the unit's name and device nodes are valid. A region may have no ports, but must not
// have the same node twice.
func hasValidNames(p inventory.Unit, unit port.Kind) bool {
	if unit == port.PerPort {
		return namePattern.MatchString(p.Name) && slices.Equal(p.Nodes, []string{p.Name})
	}
	nodes := map[string]bool{}
	for _, name := range p.Nodes {
		if nodes[name] || !nodePattern.MatchString(name) {
			return false
		}
		nodes[name] = true
	}
	withNode := unit == port.PerFMEWithNode && p.Parent != ""
	return regionPattern.MatchString(p.Name) && p.PortID == 0 && nodes[p.Parent] == withNode
}

// cardsOfTree lists the cards on the dfl-vf board before the test changes it.
var cardsOfTree = []string{"0000:01:00.0", "0000:03:00.0"}

// checkAllReadings reads every card that is listed or in cardsOfTree. A reading can fail, but then it must not return
// any units.
func checkAllReadings(t *testing.T, host sysfs.Host) {
	t.Helper()
	listed, _ := dfl.Family(port.PerPort).Cards(host)
	for _, card := range append(listed, cardsOfTree...) {
		compare.NoError(t, "a card without address", compare.ErrorOf(sysfs.ParsePCIAddress(card)))
		for _, unit := range units {
			r, err := dfl.Family(unit).Read(host, card)
			if err != nil && len(r.Units) != 0 {
				t.Errorf("%s: found units and the error %v, want one of them", card, err)
			}
			compare.NoError(t, fmt.Sprintf("%s: %+v", card, r), checkReading(r, unit))
		}
	}
}

// paths returns the paths of all files, links and directories in the tree, shuffled.
func paths(t *testing.T, root string, rnd *rand.Rand) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if path != root {
			all = append(all, path)
		}
		return err
	})
	must.Succeed(t, err)
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func TestHalfRemovedTree(t *testing.T) {
	for seed := range uint64(25) {
		host := familytest.Node(t, "dfl-vf")
		rnd := rand.New(rand.NewPCG(seed, 0))
		for i, path := range paths(t, host.Sys, rnd) {
			must.Succeed(t, os.RemoveAll(path))
			if i%4 == 0 {
				checkAllReadings(t, host)
			}
		}
		checkAllReadings(t, host)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestRemovalWhileReading removes and replaces files while another goroutine is reading. How they interleave is left to
// the Go scheduler.
func TestRemovalWhileReading(t *testing.T) {
	for seed := range uint64(10) {
		host := familytest.Node(t, "dfl-vf")
		rnd := rand.New(rand.NewPCG(seed, 1))
		all := paths(t, host.Sys, rnd)
		done := make(chan struct{})
		var breaker sync.WaitGroup
		breaker.Go(func() {
			defer close(done)
			for _, path := range all {
				os.RemoveAll(path) // errors are ignored: a parent may be gone or be a file
				switch rnd.IntN(4) {
				case 0:
					os.Symlink(filepath.Base(path), path)
				case 1:
					os.Mkdir(path, 0o755)
				case 2:
					os.WriteFile(path, []byte("\xff\x00garbage"), 0o644)
				}
			}
		})
		for removed := false; !removed; {
			select {
			case <-done:
				removed = true
			default:
			}
			checkAllReadings(t, host)
		}
		breaker.Wait()
	}
}

// FuzzRead reads a card with arbitrary content in each attribute.
func FuzzRead(f *testing.F) {
	f.Add("0\n", afuA+"\n", "0x0\n", "0x0\n", "245:0\n", "DRIVER=dfl-port\n", "1\n", pac+"\n")
	f.Add("3\n", strings.Repeat("f", 32), "0xffffffffffffffff", "0xf", "", "", "-1", strings.Repeat("F", 32))
	f.Add("", strings.Repeat("0", 9000), "0x4000000000000", "0x6\x00\x00", "a:b", "\x00", "99999999999", "é")
	f.Add("-0", "\n", "0X0", "1e3", ":", "MAJOR=1\nDRIVER=", "+1", "_")
	host := familytest.Node(f, "kernel-6.1-one-card")
	card := filepath.Join(host.Sys, "devices/pci0000:00/0000:00:01.0/0000:01:00.0")
	dir := card + "/fpga_region/region0/dfl-port.0/"
	must.Succeed(f, os.Remove(dir+"driver")) // the uevent file decides whether the port is bound
	f.Fuzz(func(t *testing.T, id, afu, errors, power, dev, uevent, numa, compat string) {
		for path, content := range map[string]string{
			dir + "id": id, dir + "afu_id": afu, dir + "errors/errors": errors, dir + "power_state": power,
			dir + "dev": dev, dir + "uevent": uevent, card + "/numa_node": numa,
			card + "/fpga_region/region0/dfl-fme.0/dfl-fme-region.1/fpga_region/region1/compat_id": compat,
		} {
			must.Succeed(t, os.WriteFile(path, []byte(content), 0o644))
		}
		for _, unit := range units {
			r, err := dfl.Family(unit).Read(host, "0000:01:00.0")
			if err != nil || len(r.Units) != 1 {
				t.Fatalf("reading %+v, error %v", r, err)
			}
			compare.NoError(t, fmt.Sprintf("%+v", r), checkReading(r, unit))
		}
	})
}
