package canpull_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/cmd/internal/canpull"
	"b-com.com/accelerator-device-plugin/cmd/internal/procusers"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const address = "0000:3b:00.0"

// link creates a link and the directory for it.
func link(t *testing.T, target, path string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// function creates a PCI function with a driver that isn't an FPGA driver.
func function(t *testing.T, sys, address, driver string) (dir string) {
	t.Helper()
	dir = filepath.Join(sys, "devices/pci0000:00", address)
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	if driver != "" {
		link(t, "../../../../bus/pci/drivers/"+driver, dir+"/driver")
	}
	link(t, "../../../devices/pci0000:00/"+address, filepath.Join(sys, "bus/pci/devices", address))
	return dir
}

// node returns a node with a two-port card, its virtual function, other functions in the same slot, and another card.
func node(t *testing.T) *simnode.Node {
	t.Helper()
	n := must.Value(simnode.New(t.TempDir()))(t)
	for _, card := range []simnode.Card{
		{Address: address, Ports: 2, AFUID: strings.Repeat("a", 32), InterfaceID: strings.Repeat("b", 32)},
		{Address: "0000:3b:01.0", Ports: 1, AFUID: strings.Repeat("a", 32), PhysFn: address},
		{Address: "0000:5e:00.0", Ports: 1, AFUID: strings.Repeat("a", 32), InterfaceID: strings.Repeat("b", 32)},
	} {
		must.Succeed(t, n.Plug(card))
	}
	vfio := function(t, n.Sys, "0000:3b:00.1", "vfio-pci")
	link(t, "../../../kernel/iommu_groups/42", vfio+"/iommu_group")
	write(t, n.Sys+"/class/vfio/42/dev", "235:7\n")
	write(t, vfio+"/vfio-dev/vfio3/dev", "511:3\n")
	link(t, "../../../../../../class/vfio-dev", vfio+"/vfio-dev/vfio3/subsystem")
	network := function(t, n.Sys, "0000:3b:00.2", "i40e")
	write(t, network+"/ptp/ptp0/dev", "248:0\n")
	write(t, network+"/nvme/nvme0n1/dev", "259:0\n")
	link(t, "../../../../../../class/block", network+"/nvme/nvme0n1/subsystem")
	function(t, n.Sys, "0000:3b:00.3", "")
	return n
}

func numbers(all ...string) (parsed []sysfs.DeviceNumber) {
	for _, text := range all {
		n, err := sysfs.ParseDeviceNumber(text)
		if err != nil {
			panic(err)
		}
		parsed = append(parsed, n)
	}
	return parsed
}

func TestRead(t *testing.T) {
	n := node(t)
	want := canpull.Card{Address: address, Functions: []canpull.Function{
		{Address: address, Driver: "dfl-pci", Nodes: []canpull.DeviceNode{
			{"dfl-fme.0", numbers("246:0")[0]}, {"dfl-port.0", numbers("245:0")[0]}, {"dfl-port.1", numbers("245:1")[0]}}},
		{Address: "0000:3b:00.1", Driver: "vfio-pci", Nodes: []canpull.DeviceNode{
			{"vfio/devices/vfio3", numbers("511:3")[0]}, {"vfio/42", numbers("235:7")[0]}}},
		{Address: "0000:3b:00.2", Driver: "i40e", Nodes: []canpull.DeviceNode{{"ptp0", numbers("248:0")[0]}}},
		{Address: "0000:3b:00.3"},
		{Address: "0000:3b:01.0", PhysFn: address, Driver: "dfl-pci", Nodes: []canpull.DeviceNode{{"dfl-port.2", numbers("245:2")[0]}}},
	}}
	for _, asked := range []string{address, "0000:3b:01.0", "0000:3b:00.3"} {
		if asked == "0000:3b:00.3" {
			want.Address = asked
		}
		compare.Values(t, asked, want, must.Value(canpull.Read(n.Sys, asked))(t))
	}
	want.Functions[3].Nodes = want.Functions[2].Nodes // functions can share a device node, which counts once
	compare.Values(t, "numbers", numbers("246:0", "245:0", "245:1", "511:3", "235:7", "248:0", "245:2"), want.Numbers())
	compare.ErrorIs(t, "an empty slot", fs.ErrNotExist, compare.ErrorOf(canpull.Read(n.Sys, "0000:77:00.0")))
	write(t, n.PortDir(address, 0)+"/dev", "rubbish\n")
	compare.Error(t, "an invalid number", `dfl-port.0/dev: found "rubbish"`, compare.ErrorOf(canpull.Read(n.Sys, address)))
}

// A card's BARs count even if a driver is bound, because programs map them.
func TestBARs(t *testing.T) {
	n := must.Value(simnode.New(t.TempDir()))(t)
	b := must.Value(simnode.BoardNamed("aws-f2"))(t)
	must.Succeed(t, n.PlugBoard(b, address), os.Symlink("../xdma", n.CardDir(address)+"/driver"))
	card := must.Value(canpull.Read(n.Sys, address))(t)
	var names []string
	for _, f := range card.Functions {
		for _, bar := range f.BARs {
			names = append(names, f.Address+"/"+bar.Name)
		}
	}
	want := []string{address + "/resource0", address + "/resource4", address + "/resource4_wc", "0000:3b:00.1/resource0"}
	compare.Values(t, "BARs", want, names)
	compare.Equal(t, "files", len(want), len(card.Files()))
}

// A group stays open after its function has been unbound, so its device node counts even though the function doesn't
// have a driver.
func TestUnboundInUse(t *testing.T) {
	for name, want := range map[string][]canpull.DeviceNode{
		"vfio-unbound-in-use":   {{"vfio/6", numbers("244:0")[0]}},
		"vfio-group-not-viable": nil, // function 0 is on dfl-pci, and another function in the group is on vfio-pci
		"vfio-unbound":          nil,
	} {
		root := t.TempDir()
		must.Succeed(t, board.Unfold(root, "../../../testdata/sysfs/kernel-6.1-"+name+".txtar"))
		card := must.Value(canpull.Read(root+"/sys", "0000:01:00.0"))(t)
		var got []canpull.DeviceNode
		for _, n := range card.Functions[0].Nodes {
			if strings.HasPrefix(n.Name, "vfio") {
				got = append(got, n)
			}
		}
		compare.Values(t, name, want, got)
	}
}

// If a function is on vfio-pci and its group can't be found, Read fails, because the function might be open under an
// unknown number.
func TestGroupNotFound(t *testing.T) {
	sys := t.TempDir()
	function(t, sys, address, "vfio-pci")
	compare.Error(t, "Read", `: bound to vfio-pci, but `, compare.ErrorOf(canpull.Read(sys, address)))
	write(t, sys+"/devices/pci0000:00/"+address+"/vfio-dev/vfio3/dev", "511:3\n")
	link(t, "../../../../../../class/vfio-dev", sys+"/devices/pci0000:00/"+address+"/vfio-dev/vfio3/subsystem")
	if card, err := canpull.Read(sys, address); err != nil || len(card.Functions[0].Nodes) != 1 {
		t.Errorf("a kernel without groups: %+v, %v", card, err)
	}
}

// facts returns the facts about a free, cordoned card with one function.
func facts() canpull.Facts {
	no := false
	return canpull.Facts{
		Address: address,
		Card: canpull.Card{Address: address, Functions: []canpull.Function{
			{Address: address, Driver: "dfl-pci", Nodes: []canpull.DeviceNode{{"dfl-port.0", numbers("245:0")[0]}}},
		}},
		Rows: []view.Row{
			{ID: "3b:00.0", Resource: "r", PCIAddress: address, Held: &no, Health: "unhealthy", Cordon: &cordon.Cordon{Device: "3b:00.0"}},
			{ID: "5e:00.0", Resource: "r", PCIAddress: "0000:5e:00.0"},
		},
	}
}

var (
	clock    = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	unlisted = canpull.Function{Address: "0000:3b:01.0", Driver: "dfl-pci", PhysFn: address, Nodes: []canpull.DeviceNode{{"dfl-port.1", numbers("245:1")[0]}}}
)

func TestJudge(t *testing.T) {
	yes := true
	goneAndHeld := []string{
		"no: in use by a/b/c: the card has already left, so the node can crash when this pod ends: see After an unplanned removal in docs/service.md",
		"unknown: no PCI device 0000:3b:00.0: file does not exist: " +
			"the card has just left the node, or this command has another --sysfs-root than the daemon"}
	for _, test := range []struct {
		name   string
		change func(*canpull.Facts)
		answer string
		want   []string
	}{
		{"free", func(*canpull.Facts) {}, canpull.Yes, nil},
		{"excluded", func(f *canpull.Facts) {
			f.Rows[0].Cordon, f.Rows[0].Reasons = nil, []string{"excluded"}
		}, canpull.Yes, nil},
		{"not offered, but perhaps after programming", func(f *canpull.Facts) {
			f.Rows[0].Cordon, f.Rows[0].Resource = nil, ""
		}, canpull.No, []string{
			"no: 3b:00.0 is not cordoned: a new pod can get it at any time: accelerator-device-plugin cordon 3b:00.0 --why TEXT"}},
		{"cordoned just now", func(f *canpull.Facts) { f.Rows[0].Health = "healthy" }, canpull.No, []string{
			"no: 3b:00.0 is cordoned, but still advertised: check again in a second"}},
		{"the cordon ends soon", func(f *canpull.Facts) { f.Rows[0].Cordon.Until = time.Now().Add(time.Minute) }, canpull.No, []string{
			"no: the cordon of 3b:00.0 ends at TIME: accelerator-device-plugin cordon 3b:00.0 --why TEXT"}},
		{"the cordon ends", func(f *canpull.Facts) { f.Rows[0].Cordon.Until = time.Now().Add(time.Hour) }, canpull.Yes, []string{
			"yes: the cordon of 3b:00.0 ends at TIME: "}},
		{"a port that is not listed yet", func(f *canpull.Facts) { f.Card.Functions = append(f.Card.Functions, unlisted) }, canpull.No, []string{
			"no: 3b:01.0 is not cordoned: a new pod can get it at any time: accelerator-device-plugin cordon 3b:01.0 --why TEXT",
			"yes: 3b:01.0 is pulled with the card as a virtual function; its driver is dfl-pci: "}},
		{"a port that is not listed, and cordoned", func(f *canpull.Facts) {
			f.Card.Functions = append(f.Card.Functions, unlisted)
			f.Cordons = []cordon.Cordon{{Device: "3b:01.0"}}
		}, canpull.Yes, []string{"yes: 3b:01.0 is pulled with the card as a virtual function; its driver is dfl-pci: "}},
		{"given according to the checkpoint", func(f *canpull.Facts) {
			f.Given = map[string][]string{"3b:00.0-p1": {"5e0b"}, "3b:00.0": {"5e0b"}, "5e:00.0": {"77"}}
		}, canpull.Unknown, []string{
			"unknown: according to the kubelet's checkpoint, the pod with the UID 5e0b has the card, but the kubelet does not list this pod: the pod has ended, or only its init containers have the card, or the kubelet has just started: " +
				"find the pod with kubectl get pods -A -o custom-columns=UID:.metadata.uid,NAMESPACE:.metadata.namespace,NAME:.metadata.name; if no pod has this UID, it has ended, and no longer counts"}},
		{"given according to the checkpoint, and named", func(f *canpull.Facts) {
			f.Given, f.Rows[0].Holder = map[string][]string{"3b:00.0": {"5e0b"}}, []string{"a/b/c"}
		}, canpull.No, []string{"no: in use by a/b/c: ask the pod's owner, or run: kubectl --namespace a delete pod b"}},
		{"no checkpoint", func(f *canpull.Facts) { f.GivenErr = errors.New("none") }, canpull.Unknown, []string{
			"unknown: the kubelet's checkpoint is not known: none: with --scan, set --kubelet-dir"}},
		{"offered", func(f *canpull.Facts) { f.Rows[0].Cordon = nil }, canpull.No, []string{
			"no: 3b:00.0 is not cordoned: a new pod can get it at any time: accelerator-device-plugin cordon 3b:00.0 --why TEXT"}},
		{"one port is offered, the other is held", func(f *canpull.Facts) {
			row := f.Rows[0]
			f.Rows[0].Holder = []string{"default/job/main"}
			row.ID, row.Cordon = "3b:00.0-p1", nil
			f.Rows = append(f.Rows, row)
		}, canpull.No, []string{
			"no: 3b:00.0 is not cordoned: a new pod can get it at any time: accelerator-device-plugin cordon 3b:00.0 --why TEXT",
			"no: in use by default/job/main: ask the pod's owner, or run: kubectl --namespace default delete pod job"}},
		{"held under any name", func(f *canpull.Facts) {
			f.Holders = map[string][]string{
				"0000:3b:00.0": {"a/b/c"}, "3b:00.0-p1": {"d/e/f", "a/b/c"}, "5e:00.0": {"x/y/z"}, "7": {"x/y/z"}}
		}, canpull.No, []string{
			"no: in use by a/b/c: ask the pod's owner, or run: kubectl --namespace a delete pod b",
			"no: in use by d/e/f: ask the pod's owner, or run: kubectl --namespace d delete pod e"}},
		{"held since before it lost its driver", func(f *canpull.Facts) {
			f.Rows[0].Holder, f.Rows[0].Reasons = []string{"a/b/c"}, []string{"removed-in-use"}
		}, canpull.No, []string{"no: in use by a/b/c: if the card left, or lost its driver, while this pod had it open, the node can crash when the pod ends: see After an unplanned removal in docs/service.md"}},
		{"held since before it was pulled and plugged", func(f *canpull.Facts) {
			f.Holders, f.Rows[0].Reasons = map[string][]string{"3b:00.0": {"a/b/c"}}, []string{"node-changed"}
		}, canpull.No, []string{"no: in use by a/b/c: if the card left, or lost its driver, while this pod had it open, the node can crash when the pod ends: see After an unplanned removal in docs/service.md"}},
		{"given out", func(f *canpull.Facts) { f.Rows[0].Held = &yes }, canpull.No, []string{
			"no: 3b:00.0 was allocated to a container that the kubelet does not list yet: check again in a few seconds"}},
		{"not known whether it is held", func(f *canpull.Facts) { f.Rows[0].Held = nil }, canpull.Unknown, []string{
			"unknown: it is unknown whether a container uses 3b:00.0: check again in a few seconds; in a debug pod, set --node-name to the host name of the node"}},
		{"holders not known", func(f *canpull.Facts) {
			f.HoldersErr, f.Rows[0].Held = "no kubelet", nil
		}, canpull.Unknown, []string{
			"unknown: it is unknown which containers use the card: no kubelet: check --pod-resources-socket and the kubelet"}},
		{"holders not known, DRA", func(f *canpull.Facts) { f.HoldersErr, f.DRA = "no kubelet", true }, canpull.Unknown, []string{
			"unknown: it is unknown which containers use the card: no kubelet: " +
				"check --pod-resources-socket, the kubelet, and claims.json in the --plugin-dir of the driver"}},
		{"node in use", func(f *canpull.Facts) { f.Rows[0].Reasons = []string{"node-in-use"} }, canpull.No, []string{
			"no: 3b:00.0 has a device node that a container with another device may open: the pod of the device that `devices` shows with removed-in-use, replaced-in-use or node-changed must end, but the node can crash then: see After an unplanned removal in docs/service.md; if there is no such device, another plugin's pod or a force-deleted pod has the node"}},
		{"no daemon", func(f *canpull.Facts) { f.Rows, f.RowsErr = nil, errors.New("no daemon") }, canpull.Unknown, []string{
			"unknown: the devices of the card are not known: no daemon: run the command where the daemon runs, or with --scan"}},
		{"missing, but on the bus: its driver is not loaded", func(f *canpull.Facts) {
			f.Rows[0] = view.Row{ID: "3b:00.0", PCIAddress: "0000:3b:00.0", Health: "unhealthy", Reasons: []string{"missing"}, MissingSince: &time.Time{}, HolderKnown: true, Held: new(bool)}
		}, canpull.Unknown, []string{
			"unknown: no device of the card is listed: check the driver of the card with lspci -k, and families in the settings of the plugin"}},
		{"no device of it", func(f *canpull.Facts) { f.Rows = f.Rows[1:] }, canpull.Unknown, []string{
			"unknown: no device of the card is listed: check the driver of the card with lspci -k, and families in the settings of the plugin"}},
		{"gone, and held", func(f *canpull.Facts) {
			f.Card, f.CardErr = canpull.Card{}, fs.ErrNotExist
			f.Rows[0].Holder, f.Rows[0].Cordon, f.Rows[0].Reasons = []string{"a/b/c"}, nil, []string{"removed-in-use"}
		}, canpull.No, goneAndHeld},
		{"gone, and held according to the kubelet", func(f *canpull.Facts) {
			f.Card, f.CardErr = canpull.Card{}, fs.ErrNotExist
			f.Rows, f.Holders = nil, map[string][]string{"3b:00.0": {"a/b/c"}}
		}, canpull.No, goneAndHeld},
		{"no card", func(f *canpull.Facts) {
			f.Card, f.CardErr = canpull.Card{}, fs.ErrNotExist
			f.Rows[0].MissingSince = &time.Time{}
		}, canpull.Unknown, []string{"unknown: no card in slot 3b:00.0 of this node, which has 5e:00.0: check the address"}},
		{"opened", func(f *canpull.Facts) {
			f.Processes = []procusers.Process{{PID: 7, Command: "job", Group: "cri-1.scope", Devices: numbers("245:0")}}
			f.ProcessesErr = errors.New("process 1: permission denied")
		}, canpull.No, []string{
			"no: process 7 (job) in cri-1.scope has dfl-port.0 (245:0) open: end it",
			"unknown: not all processes that have the card open are known: process 1: permission denied: " +
				"run it as root on the node, or in a privileged pod; if it was, the node hides these processes even from root: docs/service.md"}},
		{"confined", func(f *canpull.Facts) {
			f.ProcessesErr = fmt.Errorf("%w is not root", procusers.ErrConfined)
		}, canpull.Unknown, []string{"unknown: not all processes that have the card open are known: this process is not root: " +
			"run can-pull with --scan on the node as root, or there in a pod of kubectl debug: docs/service.md shows the command"}},
		{"a BAR is mapped", func(f *canpull.Facts) {
			bar := procusers.File{Inode: 7, Size: 4096}
			f.Card.Functions = append(f.Card.Functions, canpull.Function{Address: "0000:3b:00.1", BARs: []canpull.BAR{{Name: "resource4", File: bar}}})
			f.Processes = []procusers.Process{{PID: 7, Command: "job", Files: []procusers.File{bar}}}
		}, canpull.No, []string{
			"no: process 7 (job) has 3b:00.1/resource4 open: end it", "yes: 3b:00.1 is pulled with the card: "}},
		{"other functions", func(f *canpull.Facts) {
			f.Card.Functions = append(f.Card.Functions, canpull.Function{Address: "0000:3b:00.1", Driver: "vfio-pci"},
				canpull.Function{Address: "0000:3b:01.0", Driver: "dfl-pci", PhysFn: address})
		}, canpull.Yes, []string{
			"yes: 3b:00.1 is pulled with the card; its driver is vfio-pci: ",
			"yes: 3b:01.0 is pulled with the card as a virtual function; its driver is dfl-pci: "}},
		{"a device of another card has a function of this one", func(f *canpull.Facts) {
			f.Card.Functions = append(f.Card.Functions, canpull.Function{Address: "0000:3b:00.1", Driver: "vfio-pci", Nodes: []canpull.DeviceNode{{Name: "vfio/12", Number: numbers("240:0")[0]}}})
			f.Rows[1].Members, f.Rows[1].Holder, f.Rows[1].Held = []string{"0000:3b:00.1"}, []string{"a/b/c"}, &yes
			f.Processes = []procusers.Process{{PID: 7, Command: "qemu", Devices: numbers("240:0")}}
		}, canpull.No, []string{
			"no: 5e:00.0 is not cordoned: a new pod can get it at any time: accelerator-device-plugin cordon 5e:00.0 --why TEXT",
			"no: in use by a/b/c: ask the pod's owner, or run: kubectl --namespace a delete pod b",
			"no: process 7 (qemu) has vfio/12 (240:0) open: end it",
			"yes: 3b:00.1 is pulled with the card; its driver is vfio-pci: "}},
		{"a network function", func(f *canpull.Facts) {
			f.Card.Functions = append(f.Card.Functions, canpull.Function{Address: "0000:3b:00.1", Driver: "i40e"})
		}, canpull.Unknown, []string{
			"unknown: 3b:00.1 is pulled with the card; its driver is i40e, whose users are not known: " +
				"end them, then: echo 0000:3b:00.1 > /sys/bus/pci/drivers/i40e/unbind"}},
		{"a physical function without users", func(f *canpull.Facts) {
			f.Card.Functions[0].Driver = "pci-pf-stub"
			f.Card.Functions = append(f.Card.Functions, canpull.Function{Address: "0000:3b:00.1", Driver: "pci-stub"})
		}, canpull.Yes, []string{"yes: 3b:00.1 is pulled with the card; its driver is pci-stub: "}},
		{"the address of a virtual function", func(f *canpull.Facts) { f.Address = "0000:3b:01.0" }, canpull.Yes, []string{
			"yes: 3b:01.0 is a virtual function of 3b:00.0, which was checked: "}},
		{"a virtual function is held", func(f *canpull.Facts) {
			f.Card.Functions = append(f.Card.Functions, canpull.Function{Address: "0000:5e:00.0", PhysFn: address})
			f.Rows[1].Held = &yes
			f.Rows[1].Holder = []string{"a/b/c"}
		}, canpull.No, []string{
			"no: 5e:00.0 is not cordoned: a new pod can get it at any time: accelerator-device-plugin cordon 5e:00.0 --why TEXT",
			"no: in use by a/b/c: ask the pod's owner, or run: kubectl --namespace a delete pod b",
			"yes: 5e:00.0 is pulled with the card as a virtual function: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := facts()
			test.change(&f)
			a := canpull.Judge(f)
			var got []string
			for _, r := range a.Reasons {
				got = append(got, clock.ReplaceAllString(fmt.Sprintf("%s: %s: %s", r.Answer, r.What, r.Do), "TIME"))
			}
			compare.Equal(t, "answer", test.answer, a.Answer)
			compare.Values(t, "reasons", test.want, got)
		})
	}
}

// Even if many processes have the card open, the answer stays short.
func TestManyProcesses(t *testing.T) {
	f := facts()
	for pid := range 1000 {
		f.Processes = append(f.Processes, procusers.Process{PID: pid + 1, Devices: numbers("245:0")})
	}
	a := canpull.Judge(f)
	if n := len(a.Reasons); n != 21 || a.Reasons[20].What != "980 other processes have the card open" {
		t.Errorf("%d reasons, the last %+v", n, a.Reasons[n-1])
	}
}
