package aws_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/aws"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
)

// put is [familytest.Put] for paths below /sys.
func put(t testing.TB, host sysfs.Host, path, content string) {
	t.Helper()
	familytest.Put(t, host, "sys/"+path, content)
}

const (
	absent = familytest.Absent

	card        = "0000:01:00.0" // the boards' application function
	manager     = "0000:01:00.1"
	slotDir     = "devices/pci0000:00/0000:00:01.0/"
	application = slotDir + card
)

// unit returns the aws-card board's unit after applying the changes.
func unit(changes ...func(*inventory.Unit)) inventory.Unit {
	u := inventory.Unit{
		ID: "01:00.0", PCIAddress: card, Name: manager, Facts: inventory.Facts{PortID: -1, PCIID: "1d0f:9048:1d0f:1d51", AnyPCIID: true, NUMANode: -1, Mounts: []string{application + "/resource0"}, Members: []string{manager}, Attributes: map[string]string{"slot": "0"}}, AFUIDKnown: true, InterfaceIDKnown: true,
	}
	for _, change := range changes {
		change(&u)
	}
	return u
}

func wrong(reason string) func(*inventory.Unit) {
	row, _, _ := strings.Cut(reason, "=")
	return func(u *inventory.Unit) {
		c := inventory.Condition{Reason: reason, Health: inventory.Unhealthy, Row: row, Dead: reason == "pci-gone"}
		if row == inventory.ReasonLoading {
			c.Row, u.Mounts = "", nil
		}
		u.Conditions = append(u.Conditions, c)
	}
}

func withIDs(ids string) func(*inventory.Unit) { return func(u *inventory.Unit) { u.PCIID = ids } }

func mounts(names ...string) func(*inventory.Unit) {
	return func(u *inventory.Unit) {
		u.Mounts = nil
		for _, name := range names {
			u.Mounts = append(u.Mounts, application+"/"+name)
		}
	}
}

type readings = familytest.Readings

// TestBoards reads the boards that were recorded on a real kernel (make fixtures).
func TestBoards(t *testing.T) {
	for name, want := range map[string]inventory.Unit{
		"aws-card":          unit(),
		"aws-loaded":        unit(withIDs("1d0f:f010:1d0f:1d51")),
		"aws-loading":       unit(withIDs(""), wrong("loading")),
		"aws-not-rescanned": unit(wrong("not-rescanned=1d0f:f010")),
		"aws-dead":          unit(wrong("pci-gone")),
	} {
		t.Run(name, func(t *testing.T) {
			got, outlines := familytest.ReadAll(t, familytest.Node(t, "kernel-6.1-"+name), aws.Family{})
			compare.Values(t, "readings", readings{card: {want}}, got, familytest.Ignore)
			want.Conditions = nil
			compare.Values(t, "outlines", readings{card: {want}}, outlines, familytest.Ignore)
		})
	}
	for _, name := range []string{"vfio-function", "one-card", "several-functions"} {
		if got, _ := familytest.ReadAll(t, familytest.Node(t, "kernel-6.1-"+name), aws.Family{}); len(got) > 0 {
			t.Errorf("%s: found %+v, want no card", name, got)
		}
	}
}

// f1 adds a card of an F1 instance, whose functions are on two separate PCI devices. The application function can have
// any vendor's IDs.
func f1(t testing.TB, host sysfs.Host, bus string, application, manager int) {
	for device, modalias := range map[int]string{
		application: "pci:v000010EEd00007011sv000010EEsd00000007bc12sc00i00\n",
		manager:     "pci:v00001D0Fd00001041sv0000FEDCsd00001D50bc12sc00i00\n",
	} {
		address := fmt.Sprintf("0000:%s:%02x.0", bus, device)
		dir := "devices/pci0000:" + bus + "/" + address
		put(t, host, dir+"/modalias", modalias)
		put(t, host, dir+"/resource0", "")
		put(t, host, "bus/pci/devices/"+address+" -> ../../../"+dir, "")
	}
}

// function adds a function with a BAR.
func function(t testing.TB, host sysfs.Host, bus, function, ids string) {
	vendor, device, _ := strings.Cut(strings.ToUpper(ids), ":")
	address := "0000:" + bus + ":" + function
	dir := "devices/pci0000:" + bus + "/" + address
	put(t, host, dir+"/modalias", fmt.Sprintf("pci:v0000%sd0000%ssv00001D0Fsd00001D51bc12sc00i00\n", vendor, device))
	put(t, host, dir+"/resource0", "")
	put(t, host, "bus/pci/devices/"+address+" -> ../../../"+dir, "")
}

// TestChanges applies changes to the aws-card board.
func TestChanges(t *testing.T) {
	older := func(u *inventory.Unit) {
		u.ID, u.PCIAddress, u.Name, u.PCIID = "00:1d.0", "0000:00:1d.0", "0000:00:1e.0", "10ee:7011:10ee:0007"
		u.Members, u.Mounts = []string{"0000:00:1e.0"}, []string{"devices/pci0000:00/0000:00:1d.0/resource0"}
	}
	second := func(u *inventory.Unit) { u.Attributes = map[string]string{"slot": "1"} }
	for _, tt := range []struct {
		name   string
		change func(*testing.T, sysfs.Host)
		files  map[string]string
		want   readings
	}{
		{"all BARs", nil, map[string]string{application + "/resource4": "", application + "/resource4_wc": "", application + "/resource2": ""},
			readings{card: {unit(mounts("resource0", "resource4", "resource4_wc"))}}},
		{"no BAR yet", nil, map[string]string{application + "/resource0": absent}, readings{card: {unit(wrong("loading"))}}},
		{"management function dead", nil, map[string]string{slotDir + manager + "/config": "\xff\xff\xff\xff"}, readings{card: {unit(wrong("pci-gone"))}}},
		{"management function gone", nil, map[string]string{"bus/pci/devices/" + manager: absent, slotDir + manager: absent}, readings{}},
		{"config space cannot be read in full", nil, map[string]string{application + "/config": "\x0f"},
			readings{card: {unit(wrong("unreadable=pci/config"), func(u *inventory.Unit) { u.Conditions[0].Row = "pci-gone" })}}},
		{"another driver", nil, map[string]string{application + "/driver -> ../../../../bus/pci/drivers/xdma": ""}, readings{card: {unit()}}},
		{"xocl", nil, map[string]string{application + "/driver -> ../../../../bus/pci/drivers/xocl": ""}, readings{}},
		{"vfio-pci", nil, map[string]string{application + "/driver -> ../../../../bus/pci/drivers/vfio-pci": ""}, readings{}},
		{"xocl on the management function", nil, map[string]string{slotDir + manager + "/driver -> ../../../../bus/pci/drivers/xocl": ""}, readings{card: {unit()}}},
		{"a link that leads out of the tree", nil,
			map[string]string{"bus/pci/devices/" + card + " -> /nowhere/" + card: ""}, readings{card: {unit(withIDs(""), wrong("loading"))}}},
		{"a second card, of F1, on a lower bus", func(t *testing.T, host sysfs.Host) { f1(t, host, "00", 0x1d, 0x1e) }, nil,
			readings{"0000:00:1d.0": {unit(older)}, card: {unit(second)}}},
		// An image can have any IDs, even a management function's. If it were taken for one, a pod could get the BARs
		// of the device before its card.
		{"an image with the ids of F1's management functions, beside another device", func(t *testing.T, host sysfs.Host) {
			function(t, host, "00", "1d.0", "8086:1572")
			function(t, host, "00", "1e.0", "1d0f:1041")
			function(t, host, "00", "1e.1", "1d0f:9248")
		}, nil, readings{card: {unit(second)}, "0000:00:1e.0": {unit(func(u *inventory.Unit) {
			u.ID, u.PCIAddress, u.Name, u.PCIID = "00:1e.0", "0000:00:1e.0", "0000:00:1e.1", "1d0f:1041:1d0f:1d51"
			u.Members, u.Mounts = []string{"0000:00:1e.1"}, []string{"devices/pci0000:00/0000:00:1e.0/resource0"}
		})}}},
		{"the same on F1", func(t *testing.T, host sysfs.Host) {
			function(t, host, "00", "1c.0", "8086:1572")
			f1(t, host, "00", 0x1d, 0x1e)
			function(t, host, "00", "1d.0", "1d0f:1041")
		}, nil, readings{card: {unit(second)}, "0000:00:1d.0": {unit(older, withIDs("1d0f:1041:1d0f:1d51"))}}},
		{"ids of a management function in device 0", func(t *testing.T, host sysfs.Host) { f1(t, host, "00", 1, 0) }, nil, readings{card: {unit()}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "kernel-6.1-aws-card")
			for path, content := range tt.files {
				put(t, host, path, content)
			}
			if tt.change != nil {
				tt.change(t, host)
			}
			got, _ := familytest.ReadAll(t, host, aws.Family{})
			compare.Values(t, "readings", tt.want, got, familytest.Ignore)
		})
	}
}

// Reading a management function doesn't return a unit, but refers to the card. Other kinds of functions aren't cards.
func TestRelated(t *testing.T) {
	host := familytest.Node(t, "kernel-6.1-aws-card")
	for card, want := range map[string][]string{card: {manager}, manager: {card}} {
		for _, read := range []func(sysfs.Host, string) (inventory.Reading, error){aws.Family{}.Read, aws.Family{}.Outline} {
			r, err := read(host, card)
			if diff := cmp.Diff(want, r.Related); diff != "" || err != nil || (len(r.Units) == 0) != (card == manager) {
				t.Errorf("%s: error %v, %d units, related addresses (-want +got):\n%s", card, err, len(r.Units), diff)
			}
		}
	}
	put(t, host, application+"/driver -> ../../../../bus/pci/drivers/xocl", "")
	familytest.NoCard(t, host, aws.Family{}, card, manager, "0000:09:00.0", "", "pool", "../../x")
}

// The unit stays the same while an image is being loaded, because its directory is the management function's.
func TestIncarnation(t *testing.T) {
	host := familytest.Node(t, "kernel-6.1-aws-card")
	of := func() uint64 {
		r, err := aws.Family{}.Read(host, card)
		if err != nil || len(r.Units) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		return r.Units[0].Incarnation
	}
	before := of()
	put(t, host, "bus/pci/devices/"+card, absent)
	put(t, host, application, absent)
	if loading := of(); loading != before || before == 0 {
		t.Errorf("incarnation: found %d, want %d", loading, before)
	}
}

// The functions' other files aren't read, because BARs must not be accessed.
func TestOnlyTheseFiles(t *testing.T) {
	host := familytest.Node(t, "kernel-6.1-aws-card")
	for _, name := range []string{card, manager} {
		put(t, host, slotDir+name+"/resource0", "")
		_, others := familytest.Below(t, filepath.Join(host.Sys, slotDir, name), "modalias", "numa_node", "config", "current_link_speed", "current_link_width",
			"max_link_speed", "max_link_width", "aer_dev_fatal", "aer_dev_nonfatal")
		if len(others) < 5 {
			t.Fatalf("found %d other files, want more", len(others))
		}
		familytest.Silence(t, others...)
	}
	familytest.Returns(t, func() error {
		var f aws.Family
		_, err := f.Cards(host)
		_, oerr := f.Outline(host, card)
		r, rerr := f.Read(host, card)
		if rerr == nil && (len(r.Units) != 1 || len(r.Units[0].Conditions) > 0 || !sysfs.Unchanged(r.Observed)) {
			rerr = fmt.Errorf("found %+v, want one good unit that is unchanged", r)
		}
		return errors.Join(err, oerr, rerr)
	})
}

// Comparing the files of two readings shows whether a counter has risen or a file was lost. A missing application
// function's files aren't read, so none of them count as lost.
func TestFiles(t *testing.T) {
	names := func(board string) []string {
		r, err := aws.Family{}.Read(familytest.Node(t, "kernel-6.1-"+board), card)
		if err != nil || len(r.Units) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		return familytest.Judged(r.Units[0])
	}
	upstream := []string{"slot/aer_dev_fatal", "slot/aer_dev_nonfatal", "root/aer_rootport_total_err_fatal", "root/aer_rootport_total_err_nonfatal"}
	var own, management, counts, managementCounts []string
	for _, name := range upstream {
		own, management = append(own, name), append(management, manager+"/"+name)
		counts, managementCounts = append(counts, name+" 0"), append(managementCounts, manager+"/"+name+" 0")
	}
	want := slices.Concat([]string{manager + "/pci/config"}, management, managementCounts)
	compare.Values(t, "while it is loaded", want, names("aws-loading"))
	want = slices.Concat([]string{"pci/config"}, own, []string{manager + "/pci/config"}, management, counts, managementCounts)
	compare.Values(t, "names", want, names("aws-card"))
}

// A check notices every change that may concern a card's health, and changes to its mounts.
func TestObserved(t *testing.T) {
	const app, slot = "sys/" + application, "sys/" + slotDir
	familytest.Observed(t, familytest.Node(t, "kernel-6.1-aws-card"), aws.Family{}, card, app, app+"/config", app+"/resource0", slot+manager, slot+manager+"/config",
		"sys/bus/pci/devices/"+card, slot+"aer_dev_fatal", app+"/driver -> ../../../../bus/pci/drivers/xocl", app+"/resource4 -> resource0")
}

// If the node changes during a reading, either the reading shows the state after the change, or the next check notices
// that it is out of date. A card whose application function is removed during a reading never looks like one with a
// broken function.
func TestChangeDuringReading(t *testing.T) {
	const devices = "sys/bus/pci/devices/"
	for _, tt := range []struct {
		familytest.Change
		loading bool // reported for a while
	}{
		{familytest.Change{Name: "the application function leaves", Steps: []string{
			"sys/" + application + "/config", "sys/" + application + "/modalias", devices + card, "sys/" + application}}, true},
		{familytest.Change{Name: "the management function leaves", Steps: []string{devices + manager, "sys/" + slotDir + manager}}, false},
		{familytest.Change{Name: "xocl binds the application function", Steps: []string{"sys/" + application + "/driver -> ../../../../bus/pci/drivers/xocl"}}, false},
	} {
		familytest.ChangeDuringReading(t, familytest.Node(t, "kernel-6.1-aws-card"), aws.Family{}, card, tt.Change, func(t *testing.T, r inventory.Reading) {
			if !tt.loading {
				return
			}
			for _, c := range r.Units[0].Conditions {
				compare.Equal(t, fmt.Sprintf("%s: reason of %+v", tt.Name, c), inventory.ReasonLoading, c.Reason)
			}
		})
	}
}

// If a single access fails during a reading or listing because of a shortage of descriptors or memory, the result is
// either that error or the same as without the shortage.
func TestShortage(t *testing.T) {
	for _, board := range []string{"aws-card", "aws-loading", "aws-not-rescanned"} {
		host := familytest.Node(t, "kernel-6.1-"+board)
		f1(t, host, "00", 0x1d, 0x1e) // affects the other slot's number
		familytest.Shortage(t, host, aws.Family{}, card)
	}
}

func TestRows(t *testing.T) {
	familytest.Rows(t, aws.Family{}, "not-rescanned", "pci-gone", "aer-fatal", "link-width")
}
