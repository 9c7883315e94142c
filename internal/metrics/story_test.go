package metrics_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/golden"
)

var (
	port0 = metrics.Device{
		ID: "3b:00.0", PCI: "0000:3b:00.0", PCIID: "8086:09c4:8086:0000", Family: "dfl", Resource: accelerator, Health: "healthy",
		AFU: "d8424dc4a4a3c413f89e433683f9040b", Interface: "69528db6eb31577a8c3668f9faa081f6", NUMANode: 1,
	}
	port1 = metrics.Device{
		ID: "3b:00.0-p1", PCI: "0000:3b:00.0", Family: "dfl", Resource: accelerator, Health: "unhealthy", NUMANode: -1,
		Reasons: []string{"port-ap6", "unreadable=errors/errors", "unreadable=afu_id", "recovering=node-missing"},
	}
	buried = metrics.Device{
		ID: "5e:00.0", PCI: "0000:5e:00.0", Family: "dfl", Resource: accelerator, Health: "unhealthy", NUMANode: -1,
		Reasons: []string{"removed-in-use"}, Tombstone: "removed-in-use",
	}
	nameless = metrics.Device{
		ID: "86:00.0", PCI: "0000:86:00.0", Family: "opae", Health: "degraded", NUMANode: 0, Reasons: []string{"power-throttled=6"},
	}
	unit = metrics.Device{ID: "unit-7", Family: "pool", Resource: "b-com.com/pool", Health: "healthy", NUMANode: -1}
)

func stateOf(resources []metrics.Resource, devices ...metrics.Device) metrics.State {
	return metrics.State{
		Mode:      func() string { return "single" },
		Config:    func() string { return "1f3a9c2b77aa" },
		Devices:   func() (uint64, []metrics.Device) { return 42, devices },
		Resources: func() []metrics.Resource { return resources },
		Cards: func() []metrics.Card {
			return []metrics.Card{{Address: "3b:00.0", HealthChanges: 4, Removals: 1}, {Address: "5e:00.0", Missing: true}}
		},
	}
}

// story returns metrics after at least one event of each kind.
func story() *metrics.Metrics {
	m := metrics.New("v1.2.3")
	m.FollowOwner(func() string { return "settings" })
	for _, source := range []string{"uevent", "nodes", "tree"} {
		m.Source(source, true)
	}
	m.Source("tree", false)
	m.ResourceOffered(accelerator)
	m.ResourceOffered("b-com.com/pool")
	m.Registered(accelerator)
	m.StreamOpened(accelerator)
	m.ListSent(accelerator, 0, false)
	m.Listing(nil)
	m.Listing(errors.New("permission denied"))
	m.HoldersSource("pod-resources", nil)
	m.CDI(errors.New("disk full"))
	m.LedgerStored(errors.New("disk full"))

	m.UEvent([]byte("pci"), []byte("add"))
	m.UEvent([]byte("platform"), []byte("bind"))
	m.UEvent([]byte("platform"), []byte("bind"))
	m.UEventIgnored()
	m.UEventForged()
	m.UEventMalformed()
	m.UEventsLost()
	m.InotifyEvent("nodes")
	m.InotifyLost("tree")
	m.Hint("uevent")
	m.Hint("inotify")
	m.ScanDone(180 * time.Microsecond)
	m.ScanGone(20 * time.Microsecond)
	m.ScanFailed(3 * time.Millisecond)
	m.ScanTimeout(2 * time.Second)
	m.CardsUnreadable(1)
	m.Transition("", "healthy", "")
	m.Transition("healthy", "unhealthy", "unreadable=errors/errors")
	m.Transition("unhealthy", "healthy", "")
	m.Transition("healthy", "", "")
	m.IdentityChange("afu")
	m.ListSent(accelerator, 850*time.Microsecond, true)

	m.AllocateServed(accelerator, 2)
	m.AllocateRefused(accelerator)
	m.KubeletRestarted(accelerator)
	m.RegistrationAbandoned(accelerator)
	m.RegistrationFailed(accelerator)
	m.APIEvent("sent")
	m.APIFailed()
	m.ConfigReload(true)
	m.ConfigReload(false)
	m.LogDropped("info")
	state := stateOf([]metrics.Resource{{Name: accelerator, Streams: 1, Ready: true}, {Name: "b-com.com/pool"}, {Name: "b-com.com/leaving", Ready: true}},
		port0, port1, buried, nameless, unit)
	holder := metrics.Holder{Device: buried.ID, Resource: accelerator, Namespace: "default", Pod: "job", Container: "main"}
	state.Holders = func() []metrics.Holder { return []metrics.Holder{holder, holder} }
	state.Sensors = func() []metrics.CardSensors {
		of := func(kind sensors.Kind, chip, name string, value, most, crit float64) sensors.Reading {
			return sensors.Reading{Chip: chip, Name: name, Kind: kind, Value: value, Limits: sensors.Limits{Max: most, Crit: crit}}
		}
		const bmc = "d5005bmc_hwmon"
		return []metrics.CardSensors{{Card: "3b:00.0", Failures: 3, Link: sysfs.Link{Speed: 25, MaxSpeed: 160, Width: 8, MaxWidth: 16}, Correctable: map[string]uint64{"BadTLP": 2, "other": 1}, Readings: []sensors.Reading{
			of(sensors.Temperature, "", sensors.Die, 43.5, 90, 100), of(sensors.Temperature, "", sensors.Hottest, 24.5, 85, 95),
			of(sensors.Power, "", sensors.Board, 64.709, 0, 0),
			of(sensors.Temperature, bmc, "FPGA Core Temperature", 43.5, 90, 100), of(sensors.Voltage, bmc, "3.3v Voltage", 3.297, 3.4, 3.9),
			of(sensors.Current, bmc, "12v Backplane Current", 2.802, 5.497, 6), of(sensors.Power, "dfl_fme_power", "power1", 25, 60, 70),
		}}, {Card: "86:00.0", Readings: []sensors.Reading{of(sensors.Temperature, "", sensors.Hottest, 40, 0, 100)}}}
	}
	state.Versions = func() []metrics.CardVersions {
		return []metrics.CardVersions{
			{Card: "3b:00.0", BitstreamID: "0x501020222df1b7a", Firmware: sensors.Firmware{BMC: "1.4.1", Build: "1.4.0", Image: "fpga_user1"}},
			{Card: "5e:00.0", Shell: "xilinx_u250_gen3x16_xdma_shell_4_1"}, {Card: "86:00.0"},
		}
	}
	m.Follow(state)
	return m
}

// The first page is before the first event: all counters whose labels are known are 0. TestDocs has the types and texts.
func TestPage(t *testing.T) {
	version := regexp.MustCompile(`goversion="[^"]*"`)
	for name, m := range map[string]*metrics.Metrics{"page": story(), "first": metrics.New("v1.2.3")} {
		series := strings.Join(samples(page(t, m), "accelerator_"), "\n") + "\n"
		golden.Compare(t, "testdata/"+name+".txt", version.ReplaceAllString(series, `goversion="GO"`))
	}
}
