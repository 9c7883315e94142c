package nodecondition_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/daemon/nodecondition"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// device returns a device that is unhealthy if there are reasons. fault says whether one of them is a fault.
func device(id string, fault bool, reasons ...string) *inventory.Device {
	d := &inventory.Device{ID: id, PCIAddress: "0000:" + id, OfferedAs: "b-com.com/accelerator", Fault: fault, Reasons: reasons}
	if len(reasons) > 0 {
		d.Health = inventory.Unhealthy
	}
	return d
}

func node(devices ...*inventory.Device) inventory.Snapshot {
	return inventory.Snapshot{Version: 1, Complete: true, Devices: devices}
}

func TestJudge(t *testing.T) {
	gone := ledger.Missing{Card: "5e:00.0", Since: time.Date(2026, 11, 20, 4, 12, 59, 0, time.FixedZone("CET", 3600))}
	good := func(id string) *inventory.Device { return device(id, false) }
	fault := device("3b:00.0", true, "port-ap6")
	virtual := good("3b:00.5")
	virtual.Attributes = map[string]string{inventory.AttributePhysicalFunction: "0000:3b:00.0"}
	degraded := device("3b:00.0", false, "port-mmio-timeout")
	degraded.Health = inventory.Degraded
	unwanted := device("af:00.0", true, "no-iommu")
	unwanted.OnlyByRule, unwanted.OfferedAs = true, ""
	reading := node(good("3b:00.0"))
	reading.Complete = false
	broken := reading
	broken.Devices = []*inventory.Device{fault}
	long := "state=\x1b[1m" + strings.Repeat("é", 2000)
	var many, longs []*inventory.Device
	var cut []string
	for i := range 12 {
		longs = append(longs, device(fmt.Sprintf("0001:%02x:00.0-p1", i), true, long))
		cut = append(cut, longs[i].ID+` state=\x1b[1m`+strings.Repeat("é", 25)+"…")
		many = append(many, device(fmt.Sprintf("%02x:00.0", i), true, "afu-dead"))
	}
	before := func(s inventory.Snapshot) nodecondition.Verdict {
		return nodecondition.Judge(nodecondition.Verdict{}, s, nil, nil)
	}
	for _, test := range []struct {
		name     string
		before   nodecondition.Verdict
		snapshot inventory.Snapshot
		missing  []ledger.Missing
		want     string // STATUS REASON MESSAGE
	}{
		{"one card", before(reading), node(good("3b:00.0"), good("3b:00.0-p1")), nil, "good NoFault 1 card without a fault"},
		{"fault and missing card", before(reading), node(fault, good("d8:00.0")), []ledger.Missing{gone},
			"bad CardFault 2 of 3 cards: 3b:00.0 port-ap6; 5e:00.0 missing since 2026-11-20T03:12Z"},
		{"missing card", before(node(good("d8:00.0"))), node(good("d8:00.0")), []ledger.Missing{gone},
			"bad CardMissing 1 of 2 cards: 5e:00.0 missing since 2026-11-20T03:12Z"},
		{"missing card that is cordoned", before(reading), node(good("d8:00.0")), []ledger.Missing{{Card: "af:00.0"}}, "good NoFault 1 card without a fault"},
		{"two ports of a card", before(reading), node(fault, device("3b:00.0-p1", true, "port-dead")), nil,
			"bad CardFault 1 of 1 card: 3b:00.0 port-ap6; 3b:00.0-p1 port-dead"},
		{"the worst reason of the hardware", before(reading), node(device("3b:00.0", true, "node-in-use", "port-ap6", "recovering=aer-fatal")), nil,
			"bad CardFault 1 of 1 card: 3b:00.0 port-ap6"},
		{"a fault in quarantine", before(reading), node(device("3b:00.0", true, "flapping", "port-ap6")), nil, "bad CardFault 1 of 1 card: 3b:00.0 port-ap6"},
		{"virtual functions", before(reading), node(good("3b:00.0"), virtual, good("d8:00.0")), nil, "good NoFault 2 cards without a fault"},
		{"a pool", before(reading), node(good("0"), good("1"), device("2", true, "port-ap6")), nil, "bad CardFault 1 of 3 devices: 2 port-ap6"},
		{"quarantine", before(reading), node(device("3b:00.0", false, "flapping")), nil, "bad CardFault 1 of 1 card: 3b:00.0 flapping"},
		{"many", before(reading), node(many...), nil, "bad CardFault 12 of 12 cards: 00:00.0 afu-dead; 01:00.0 afu-dead; 02:00.0 afu-dead; " +
			"03:00.0 afu-dead; 04:00.0 afu-dead; 05:00.0 afu-dead; 06:00.0 afu-dead; 07:00.0 afu-dead; 08:00.0 afu-dead; 09:00.0 afu-dead; and 2 more"},
		{"long reasons with control characters", before(reading), node(longs...), nil, "bad CardFault 12 of 12 cards: " + strings.Join(cut[:10], "; ") + "; and 2 more"},

		{"degraded", before(node(fault)), node(degraded), nil, "good NoFault 1 card without a fault"},
		{"hold after the start", before(reading), node(good("d8:00.0"), device("3b:00.0", false, "recovering=port-ap6")), nil,
			"unknown Recovering waits for the recovery of 1 card"},
		{"hold after the start, and a fault", before(reading), node(fault, device("d8:00.0", false, "recovering=port-ap6")), nil,
			"bad CardFault 1 of 2 cards: 3b:00.0 port-ap6"},
		{"hold", before(node(good("3b:00.0"))), node(device("3b:00.0", false, "recovering=port-ap6")), nil, "good NoFault 1 card without a fault"},
		{"hold after a fault", before(node(fault)), node(device("3b:00.0", false, "recovering=port-ap6")), nil,
			"bad CardFault 1 of 1 card: 3b:00.0 recovering=port-ap6"},
		{"hold of another card", before(node(fault, good("d8:00.0"))), node(good("3b:00.0"), device("d8:00.0", false, "recovering=port-ap6")), nil,
			"good NoFault 2 cards without a fault"},
		{"cordoned", before(node(fault)), node(device("3b:00.0", true, "cordoned", "port-ap6")), nil, "good NoFault 1 card without a fault"},
		{"excluded", before(node(fault)), node(device("3b:00.0", true, "excluded", "port-ap6")), nil, "good NoFault 1 card without a fault"},
		{"programming", before(reading), node(device("3b:00.0", false, "loading")), nil, "good NoFault 1 card without a fault"},
		{"removed in use", before(reading), node(device("3b:00.0", false, "removed-in-use")), nil, "good NoFault 1 card without a fault"},
		{"not offered by a rule", before(reading), node(unwanted), nil, "unknown NoCards this node has no cards"},

		{"no cards", before(node(fault)), node(), nil, "unknown NoCards this node has no cards"},
		{"start", nodecondition.Verdict{}, inventory.Snapshot{}, nil, "unknown NotRead not all cards have been read yet"},
		{"start with a fault and a missing card", before(reading), broken, []ledger.Missing{gone}, "unknown NotRead not all cards have been read yet"},
		{"change of mode", before(node(good("3b:00.0"), good("d8:00.0"))), reading, nil, "good NoFault 2 cards without a fault"},
		{"unchecked", before(node(good("3b:00.0"))), node(device("3b:00.0", false, "unchecked")), nil,
			"unknown NotChecked the daemon is out of file descriptors or memory, and cannot check 1 card"},
		{"unchecked and a fault", before(reading), node(fault, device("d8:00.0", false, "unchecked")), nil, "bad CardFault 1 of 2 cards: 3b:00.0 port-ap6"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := nodecondition.Judge(test.before, test.snapshot, test.missing, []cordon.Cordon{{Device: "af:00.0"}})
			compare.Equal(t, "verdict", test.want, fmt.Sprintf("%s %s %s", v.Status, v.Reason, v.Message))
			if len(v.Message) > 1024 { // the limit in the charts' policy
				t.Errorf("a message of %d bytes, want at most 1024", len(v.Message))
			}
		})
	}
}
