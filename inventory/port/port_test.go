package port_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// ignoreErr ignores the errors in conditions, which TestConditionErrors checks.
var ignoreErr = cmpopts.IgnoreFields(inventory.Condition{}, "Err")

const (
	afuID = "d8424dc4a4a3c413f89e433683f9040b"
	allF  = "ffffffffffffffffffffffffffffffff"
)

// portDir returns the port's directory on the kernel-6.1-one-card board.
func portDir(h sysfs.Host) string {
	return h.Sys + "/devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region/region0/dfl-port.0"
}

// Contents with a special meaning for edit.
const (
	absent    = "\x00absent"
	directory = "\x00directory"
	silent    = "\x00silent" // a FIFO, so reads block
	linkTo    = "\x00link "  // followed by the target
)

// edit replaces files below dir.
func edit(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		err := os.RemoveAll(path)
		switch target, isLink := strings.CutPrefix(content, linkTo); {
		case content == absent:
		case content == directory:
			err = errors.Join(err, os.Mkdir(path, 0o755))
		case content == silent:
			err = errors.Join(err, syscall.Mkfifo(path, 0o600))
		case isLink:
			err = errors.Join(err, os.Symlink(target, path))
		default:
			err = errors.Join(err, os.WriteFile(path, []byte(content), 0o644))
		}
		must.Succeed(t, err)
	}
}

func unhealthy(reasons ...string) []inventory.Condition {
	var c []inventory.Condition
	for _, r := range reasons {
		c = append(c, inventory.Condition{Reason: r, Health: inventory.Unhealthy})
	}
	return c
}

// files returns a port's health files, with these marked as absent.
func files(absent ...string) []inventory.HealthFile {
	list := judged("dfl")[:3]
	for i := range list {
		list[i].Absent = slices.Contains(absent, list[i].Name)
	}
	return list
}

// good returns the kernel-6.1-one-card board's port after applying the changes.
func good(changes ...func(*inventory.Unit)) inventory.Unit {
	p := inventory.Unit{
		Name: "dfl-port.0", Facts: inventory.Facts{PortID: 0, AFUID: afuID, NUMANode: -1, Nodes: []string{"dfl-port.0"}}, PortIDKnown: true, AFUIDKnown: true, Files: files(),
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

// withConditions replaces a port's conditions. Each reason is a row in the table, or stands for a file that can't be
// read.
func withConditions(reasons ...string) func(*inventory.Unit) {
	return func(p *inventory.Unit) {
		p.Conditions = nil
		for _, reason := range reasons {
			p.Conditions = append(p.Conditions, condition(reason))
		}
	}
}

func condition(reason string) inventory.Condition {
	name, file, _ := strings.Cut(reason, "=")
	switch {
	case name == "driver-unbound" || reason == "unreadable=id" || reason == "unreadable=dev":
		return unhealthy(reason)[0]
	case name == "unreadable":
		list := judged("dfl")
		i := slices.IndexFunc(list, func(f inventory.HealthFile) bool { return f.Name == file })
		return withRow(list[i].Row, reason, list[i].Lost)
	case strings.HasPrefix(reason, "port-error="):
		return withRow(name, reason, poor)
	case strings.HasSuffix(reason, "-dead"):
		return dead(reason)
	}
	return ofRow(reason, healthOf(reason))
}

func noPortID(p *inventory.Unit) { p.PortID, p.PortIDKnown = -1, false }
func noAFU(p *inventory.Unit)    { p.AFUID, p.AFUIDKnown = "", false }

func without(absent ...string) func(*inventory.Unit) {
	return func(p *inventory.Unit) { p.Files = files(absent...) }
}

func TestRead(t *testing.T) {
	none := func(p *inventory.Unit) { p.Files = nil }
	for _, tt := range []struct {
		name string
		edit map[string]string
		want inventory.Unit
	}{
		{"healthy", nil, good()},
		{"values padded with NULs", map[string]string{
			"afu_id": afuID + "\n" + strings.Repeat("\x00", 4064), "id": "0\n\x00\x00", "power_state": "0x0\x00",
		}, good()},
		{"capitals", map[string]string{"afu_id": strings.ToUpper(afuID) + "\n"}, good()},
		{"port 3", map[string]string{"id": "3\n"}, good(func(p *inventory.Unit) { p.PortID = 3 })},

		{"driver link dangles", map[string]string{"driver": linkTo + "nowhere", "uevent": absent}, good()},
		{"driver in uevent only", map[string]string{"driver": absent}, good()},
		{"no driver entry, no uevent", map[string]string{"driver": absent, "uevent": absent}, good()},
		{"unbound", map[string]string{"driver": absent, "uevent": "MAJOR=245\nDEVNAME=dfl-port.0\n"},
			good(withConditions("driver-unbound"), noAFU, none)},
		{"unbound, with garbage", map[string]string{
			"driver": absent, "uevent": directory, "afu_id": "x", "id": "x", "power_state": directory,
		}, good(withConditions("driver-unbound"), noPortID, noAFU, none)},
		{"bare directory", map[string]string{
			"driver": absent, "uevent": absent, "id": absent, "afu_id": absent, "power_state": absent,
		}, good(withConditions("driver-unbound"), noPortID, noAFU, none)},

		{"no id", map[string]string{"id": absent}, good(withConditions("unreadable=id"), noPortID)},
		{"id is garbage", map[string]string{"id": "-1\n"}, good(withConditions("unreadable=id"), noPortID)},
		{"id is long", map[string]string{"id": strings.Repeat("1", 5000)}, good(withConditions("unreadable=id"), noPortID)},

		{"no afu_id, no errors", map[string]string{"afu_id": absent, "errors": absent},
			good(func(p *inventory.Unit) { p.AFUID = "" }, without("afu_id", "errors/errors"))},
		{"afu_id is a directory", map[string]string{"afu_id": directory}, good(withConditions("unreadable=afu_id"), noAFU)},
		{"afu_id is a dangling link", map[string]string{"afu_id": linkTo + "nowhere"},
			good(withConditions("unreadable=afu_id"), noAFU)},
		{"afu_id is a circular link", map[string]string{"afu_id": linkTo + "afu_id"},
			good(withConditions("unreadable=afu_id"), noAFU)},
		{"afu_id is empty", map[string]string{"afu_id": ""}, good(withConditions("unreadable=afu_id"), noAFU)},
		{"afu_id is short", map[string]string{"afu_id": afuID[1:] + "\n"}, good(withConditions("unreadable=afu_id"), noAFU)},
		{"afu_id is long", map[string]string{"afu_id": afuID + "0\n"}, good(withConditions("unreadable=afu_id"), noAFU)},
		{"afu_id is a page", map[string]string{"afu_id": strings.Repeat("a", 5000)},
			good(withConditions("unreadable=afu_id"), noAFU)},
		{"afu_id is dead", map[string]string{"afu_id": allF + "\n", "id": "3\n"},
			good(withConditions("afu-dead"), noAFU, noPortID)},
		{"all is dead", map[string]string{
			"afu_id": strings.ToUpper(allF), "id": "3\n", "errors/errors": "0xffffffffffffffff\n", "power_state": "0xf\n",
		}, good(withConditions("afu-dead"), noAFU, noPortID)},
		{"dead and shut down", map[string]string{"afu_id": allF, "errors/errors": "0x4000000000000\n"},
			good(withConditions("afu-dead", "port-ap6"), noAFU, noPortID)},

		{"error AP6", map[string]string{"errors/errors": "0x4000000000000\n"}, good(withConditions("port-ap6"))},
		{"error AP6 among others", map[string]string{"errors/errors": "0x5000000000001\n"},
			good(withConditions("port-ap6", "port-tx=ch0-overflow", "port-page-fault"))},
		{"errors without name", map[string]string{"errors/errors": "0xfff0000000000000\n"},
			good(withConditions("port-error=0xfff0000000000000"))},
		{"errors are all ones", map[string]string{"errors/errors": "0xffffffffffffffff\n"}, good(withConditions("port-dead"), noPortID)},
		{"plain 0", map[string]string{"errors/errors": "0\n"}, good()},
		{"errors is a directory", map[string]string{"errors/errors": directory},
			good(withConditions("unreadable=errors/errors"))},
		{"errors is garbage", map[string]string{"errors/errors": "0x0 0x0\n"}, good(withConditions("unreadable=errors/errors"))},
		{"errors has 65 bits", map[string]string{"errors/errors": "0x10000000000000000\n"},
			good(withConditions("unreadable=errors/errors"))},
		{"errors is in a file", map[string]string{"errors": "0x0\n"}, good(withConditions("unreadable=errors/errors"))},

		{"wholly throttled", map[string]string{"power_state": "0x6\n"}, good(withConditions("power-throttled=6"))},
		{"half throttled", map[string]string{"power_state": "0x1\n"}, good(withConditions("power-throttled=1"))},
		{"power_state is garbage", map[string]string{"power_state": "six\n"}, good(withConditions("unreadable=power_state"))},
		{"unknown power_state", map[string]string{"power_state": "0x7\n"}, good(withConditions("unreadable=power_state"))},
		{"dead, without AFU id", map[string]string{"afu_id": absent, "errors": absent, "power_state": "0xf\n", "id": "3\n"},
			good(withConditions("port-dead"), without("afu_id", "errors/errors"), noPortID, func(p *inventory.Unit) { p.AFUID = "" })},
		{"dead by all files", map[string]string{"afu_id": absent, "errors/errors": "0xffffffffffffffff\n", "power_state": "0xf\n"},
			good(withConditions("port-dead"), without("afu_id"), noPortID, func(p *inventory.Unit) { p.AFUID = "" })},
		{"id beyond two bits", map[string]string{"id": "4\n"}, good(withConditions("unreadable=id"), noPortID)},
		{"no power_state", map[string]string{"power_state": absent}, good(without("power_state"))},

		{"everything at once", map[string]string{
			"id": directory, "afu_id": "\xff", "errors/errors": "\x00\x01", "power_state": "", "dev": "x",
		}, good(withConditions("unreadable=id", "unreadable=afu_id", "unreadable=errors/errors", "unreadable=power_state"),
			noPortID, noAFU)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "kernel-6.1-one-card")
			edit(t, portDir(host), tt.edit)
			got, ok := port.Read(host, portDir(host))
			if !ok {
				t.Fatal("the port is gone")
			}
			if got.Incarnation == 0 {
				t.Error("no incarnation")
			}
			compare.Values(t, "port", tt.want, got, cmpopts.IgnoreFields(inventory.Unit{}, "Incarnation", "NodeNumbers"), ignoreErr)
		})
	}
}

func TestReadNode(t *testing.T) {
	for _, tt := range []struct {
		name string
		node string
		want []inventory.Condition
	}{
		{"regular file", "", nil},
		{"missing", absent, unhealthy("node-missing")},
		{"directory", directory, unhealthy("node-mismatch")},
		{"link", linkTo + "dfl-fme.0", unhealthy("node-mismatch")},
		{"dangling link", linkTo + "nowhere", unhealthy("node-mismatch")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "kernel-6.1-one-card")
			edit(t, host.Dev, map[string]string{"dfl-port.0": tt.node})
			got, _ := port.Read(host, portDir(host))
			compare.Values(t, "conditions", tt.want, got.Conditions, ignoreErr)
		})
	}
	t.Run("regular file on a true node", func(t *testing.T) {
		host := familytest.Node(t, "kernel-6.1-one-card")
		host.Simulated = false
		got, _ := port.Read(host, portDir(host))
		compare.Values(t, "conditions", unhealthy("node-mismatch"), got.Conditions, ignoreErr)
	})
}

func TestReadCharacterNode(t *testing.T) {
	for _, tt := range []struct {
		name string
		dev  string
		want []inventory.Condition
	}{
		{"same", "245:0\n", nil},
		{"another minor", "245:1\n", unhealthy("node-mismatch")},
		{"another major", "244:0\n", unhealthy("node-mismatch")},
		{"dev is garbage", "245\n", unhealthy("unreadable=dev")},
		{"dev is absent", absent, unhealthy("unreadable=dev")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "kernel-6.1-one-card")
			edit(t, host.Dev, map[string]string{"dfl-port.0": absent})
			if err := syscall.Mknod(host.Dev+"/dfl-port.0", syscall.S_IFCHR|0o600, 245<<8); err != nil {
				t.Skipf("a device node cannot be made here: %v", err)
			}
			edit(t, portDir(host), map[string]string{"dev": tt.dev})
			got, _ := port.Read(host, portDir(host))
			compare.Values(t, "conditions", tt.want, got.Conditions, ignoreErr)
		})
	}
}

func TestReadAbsentPort(t *testing.T) {
	host := familytest.Node(t, "kernel-6.1-one-card")
	edit(t, portDir(host), map[string]string{".": absent})
	if _, ok := port.Read(host, portDir(host)); ok {
		t.Error("port without directory: found a port, want none")
	}
	edit(t, filepath.Dir(portDir(host)), map[string]string{"dfl-port.0": ""})
	if _, ok := port.Read(host, portDir(host)); ok {
		t.Error("file instead of a directory: found a port, want none")
	}
}

// TestReadWhilePortLeaves removes or replaces the port while it is being read. A FIFO in place of afu_id blocks the
// reading until the test writes to it.
func TestReadWhilePortLeaves(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(dir string) error
		want bool
	}{
		{"stays", func(string) error { return nil }, true},
		{"removed", os.RemoveAll, false},
		{"renamed", func(dir string) error { return os.Rename(dir, dir+"0") }, false},
		{"replaced", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"0"), os.CopyFS(dir, os.DirFS(dir+"0/errors")))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "kernel-6.1-one-card")
			dir := portDir(host)
			edit(t, dir, map[string]string{"afu_id": absent})
			must.Succeed(t, syscall.Mkfifo(dir+"/afu_id", 0o600))
			result := make(chan bool)
			go func() {
				_, ok := port.Read(host, dir)
				result <- ok
			}()
			fifo, err := os.OpenFile(dir+"/afu_id", os.O_WRONLY, 0) // blocks until readPort opens it
			must.Succeed(t, err)
			err = tt.then(dir)
			_, werr := fifo.WriteString(afuID + "\n")
			must.Succeed(t, err, werr, fifo.Close())
			compare.Equal(t, "reading", tt.want, <-result)
		})
	}
}

func TestTakeAFU(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want inventory.Unit
	}{
		{"being reprogrammed", syscall.EBUSY, inventory.Unit{
			Conditions: []inventory.Condition{{Reason: "reprogramming", Health: poor, Row: "reprogramming", Passing: true}},
			Files:      files()[:1],
		}},
		{"removed", syscall.ENODEV, inventory.Unit{Conditions: []inventory.Condition{condition("unreadable=afu_id")}, Files: files()[:1]}},
		{"failing", syscall.EIO, inventory.Unit{Conditions: []inventory.Condition{condition("unreadable=afu_id")}, Files: files()[:1]}},
		{"absent", syscall.ENOENT, inventory.Unit{AFUIDKnown: true, Files: files("afu_id")[:1]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got inventory.Unit
			err := fmt.Errorf("port: %w", &fs.PathError{Op: "read", Path: "afu_id", Err: tt.err})
			if port.TakeAFU(&got, "", err) {
				t.Error("dead is true, want false")
			}
			compare.Values(t, "port", tt.want, got, ignoreErr)
		})
	}
}

// If a file can't be read or its value is invalid, the error contains the file, the value found, and the allowed
// values.
func TestConditionErrors(t *testing.T) {
	for _, tt := range []struct {
		name, file, content string
		want                []string
	}{
		{"garbage", "errors/errors", "overheated\n", []string{"dfl-port.0/errors/errors", `"overheated"`, "in hexadecimal"}},
		{"too short", "afu_id", "d8424dc4\n", []string{"dfl-port.0/afu_id", `"d8424dc4"`, "32 hex digits"}},
		{"a page", "id", strings.Repeat("9", 4096), []string{"dfl-port.0/id", "4096 bytes", "0 to 255"}},
		{"directory", "power_state", directory, []string{"dfl-port.0/power_state", "is a directory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "kernel-6.1-one-card")
			edit(t, portDir(host), map[string]string{tt.file: tt.content})
			got, _ := port.Read(host, portDir(host))
			if len(got.Conditions) != 1 || got.Conditions[0].Err == nil {
				t.Fatalf("conditions = %+v, want one with an error", got.Conditions)
			}
			for _, want := range tt.want {
				compare.Contains(t, "error", want, got.Conditions[0].Err.Error())
			}
		})
	}
}

// A card's outline contains the same ports as a full reading, without attributes.
func TestOutline(t *testing.T) {
	for _, b := range []string{"dfl-two-ports", "dfl-vf", "dfl-multi-function", "kernel-6.1-one-card"} {
		t.Run(b, func(t *testing.T) {
			host := familytest.Node(t, b)
			cards, err := dfl.Family(port.PerPort).Cards(host)
			if err != nil || len(cards) == 0 {
				t.Fatalf("cards = %v, %v", cards, err)
			}
			for _, card := range cards {
				read := must.Value(dfl.Family(port.PerPort).Read(host, card))(t)
				var want []string
				for _, p := range read.Units {
					want = append(want, fmt.Sprint(p.Name, p.Incarnation, p.Nodes))
					edit(t, filepath.Dir(found(filepath.Glob(host.Sys + "/devices/*/*/*/fpga_region/region*/" + p.Name + "/dev"))[0]),
						map[string]string{"id": directory, "afu_id": directory, "power_state": directory})
				}
				outline := must.Value(dfl.Family(port.PerPort).Outline(host, card))(t)
				var got []string
				for _, p := range outline.Units {
					got = append(got, fmt.Sprint(p.Name, p.Incarnation, p.Nodes))
					if p.PortIDKnown || p.AFUIDKnown || p.InterfaceIDKnown {
						t.Errorf("%s: outline %+v, want no known ids", card, p)
					}
				}
				compare.Values(t, card+": ports (-read +outline)", want, got)
			}
		})
	}
	if _, err := dfl.Family(port.PerPort).Outline(familytest.Node(t, "kernel-6.1-one-card"), "0000:7f:00.0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("outline of an empty slot: %v, want fs.ErrNotExist", err)
	}
}

func found(paths []string, err error) []string {
	if err != nil || len(paths) == 0 {
		panic(fmt.Sprint(paths, err))
	}
	return paths
}
