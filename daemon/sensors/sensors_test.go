package sensors_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/sensors"
	"b-com.com/accelerator-device-plugin/internal/latest"
	measured "b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/sysfstest"
	"b-com.com/accelerator-device-plugin/test/task"
)

type snapshots struct {
	*latest.Value[inventory.Snapshot]
}

func (s snapshots) Latest() (inventory.Snapshot, <-chan struct{}) { return s.Load() }

// rig is a node where the test determines what is read from cards.
type rig struct {
	t        *testing.T
	devices  snapshots
	settings *latest.Value[sensors.Settings]
	s        *sensors.Sensors
	logs     func() string
	end      func()

	mu    sync.Mutex
	reads []string          // what was read: ADDRESS, or ADDRESS all
	cards map[string]answer // what is read from the cards; 40 °C by default
}

type answer struct {
	hangs    chan struct{} // the reading takes until this is closed; nil: no time
	value    float64
	failures int
	void     bool
}

func device(address, family string) *inventory.Device {
	return &inventory.Device{ID: strings.TrimPrefix(address, "0000:"), PCIAddress: address, Family: family}
}

func node(devices ...*inventory.Device) inventory.Snapshot {
	return inventory.Snapshot{Version: 1, Complete: true, Devices: devices}
}

const one, two = "0000:3b:00.0", "0000:5e:00.0"

func start(t *testing.T, settings sensors.Settings, first inventory.Snapshot) *rig {
	r := &rig{t: t, devices: snapshots{latest.New(first)}, settings: latest.New(settings), cards: map[string]answer{}}
	core, observed := eventtest.Observed(t)
	r.logs = func() (lines string) {
		for _, l := range observed.TakeAll() {
			fields := l.ContextMap()
			lines += fmt.Sprintln(fields["event"], fields["pci"], fields["error"])
		}
		return lines
	}
	r.s = sensors.New(sensors.Config{Devices: r.devices, Settings: r.settings.Load}, zap.New(core))
	r.s.ReadWith(func(address, what string) ([]measured.Reading, int, error, bool) {
		r.mu.Lock()
		a, ok := r.cards[address]
		if !ok {
			a.value = 40
		}
		r.reads = append(r.reads, strings.TrimSpace(strings.TrimPrefix(address, "0000:")+" "+what))
		r.mu.Unlock()
		if a.hangs != nil {
			<-a.hangs
		}
		if a.failures > 0 || a.void || what == "pci" {
			return nil, a.failures, syscall.EIO, a.void
		}
		return []measured.Reading{{Chip: "bmc", Name: "FPGA Die Temperature", Kind: measured.Temperature, Value: a.value}}, 0, nil, false
	})
	r.end = task.Run(t, r.s.Run)
	synctest.Wait()
	return r
}

// plugged returns a simulated node with a card.
func plugged(t *testing.T, address string) (*simnode.Node, sysfs.Host) {
	n := must.Value(simnode.New(t.TempDir()))(t)
	must.Succeed(t, n.Plug(simnode.Card{Address: address, AFUID: strings.Repeat("a", 32), InterfaceID: strings.Repeat("b", 32), Ports: 1}))
	return n, sysfs.Host{Sys: n.Sys, Dev: n.Dev, Simulated: true}
}

func (r *rig) set(address string, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cards[address] = a
}

// after advances the fake time and checks what was read in the meantime and what is shown: ADDRESS=VALUE,FAILURES.
func (r *rig) after(d time.Duration, reads, shown string) {
	r.t.Helper()
	time.Sleep(d) // fake time
	synctest.Wait()
	r.mu.Lock()
	slices.Sort(r.reads)
	got := strings.Join(r.reads, ", ")
	r.reads = nil
	r.mu.Unlock()
	compare.Equal(r.t, "read", reads, got)
	var cards []string
	all := r.s.Latest()
	for _, address := range slices.Sorted(maps.Keys(all)) {
		value := "-"
		if c := all[address]; len(c.Summary) > 0 {
			value = fmt.Sprint(c.Summary[0].Value)
			if c.All != nil {
				value += "+"
			}
		}
		cards = append(cards, fmt.Sprintf("%s=%s,%d", strings.TrimPrefix(address, "0000:"), value, all[address].Failures))
	}
	compare.Equal(r.t, "shown", shown, strings.Join(cards, " "))
}

var quarter = sensors.Settings{Which: sensors.Main, Interval: 15 * time.Second}

// TestInterval checks that cards are read at intervals, starting once all of them have been found.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early := node(device(one, "dfl"))
		early.Complete = false
		r := start(t, quarter, early)
		r.after(time.Minute, "", "")
		r.devices.Store(node(device(one, "dfl"), device(two, "opae")))
		r.after(0, "3b:00.0, 5e:00.0", "3b:00.0=40,0 5e:00.0=40,0")
		r.after(14*time.Second, "", "3b:00.0=40,0 5e:00.0=40,0")
		r.set(one, answer{value: 50})
		r.after(time.Second, "3b:00.0, 5e:00.0", "3b:00.0=50,0 5e:00.0=40,0")
		r.devices.Store(node(device(two, "opae"))) // the card is removed
		r.after(0, "", "5e:00.0=40,0")
		r.after(15*time.Second, "5e:00.0", "5e:00.0=40,0")
		r.devices.Store(node(device(one, "dfl"), device(two, "opae")))
		r.after(15*time.Second, "3b:00.0, 5e:00.0", "3b:00.0=50,0 5e:00.0=40,0")
		compare.Equal(t, "log", "", r.logs())
	})
}

// TestSettings changes the settings while the daemon is running.
func TestSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, sensors.Settings{Which: sensors.None, Interval: time.Second}, node(device(one, "dfl"), device(two, "xrt")))
		r.after(time.Hour, "", "")
		r.settings.Store(quarter)
		r.after(0, "3b:00.0, 5e:00.0 pci", "3b:00.0=40,0 5e:00.0=-,0")
		r.settings.Store(quarter) // a different setting has changed
		r.after(14*time.Second, "", "3b:00.0=40,0 5e:00.0=-,0")
		r.settings.Store(sensors.Settings{Which: sensors.Main, Interval: time.Minute})
		r.after(0, "3b:00.0, 5e:00.0 pci", "3b:00.0=40,0 5e:00.0=-,0")
		r.after(59*time.Second, "", "3b:00.0=40,0 5e:00.0=-,0")
		r.settings.Store(sensors.Settings{Which: sensors.All, Interval: time.Minute})
		r.after(0, "3b:00.0 all, 5e:00.0 all", "3b:00.0=40+,0 5e:00.0=40+,0")
		r.settings.Store(sensors.Settings{Which: sensors.All})
		r.after(time.Hour, "", "")
	})
}

// TestCards checks that each physical card is read once, and that only the PCI function is read if a card doesn't have
// sensors. A function that isn't advertised isn't read.
func TestCards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		virtual := device("0000:3b:00.5", "dfl")
		virtual.Attributes = map[string]string{inventory.AttributePhysicalFunction: one}
		other, nic := device(two, "vfio"), device("0000:af:00.0", "vfio")
		nic.OnlyByRule = true
		r := start(t, quarter, node(device(one, "dfl"), device(one, "dfl"), virtual, other, nic, device("", "pool"), device("0000:af:00.1", "xrt")))
		r.after(0, "3b:00.0, 5e:00.0 pci, af:00.1 pci", "3b:00.0=40,0 5e:00.0=-,0 af:00.1=-,0")
		r.devices.Store(node(virtual))
		r.after(15*time.Second, "3b:00.0", "3b:00.0=40,0")
	})
}

// TestHangs checks that a card that hangs has no values after 10 s, and that other cards aren't affected.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, quarter, node(device(one, "dfl"), device(two, "dfl")))
		r.after(0, "3b:00.0, 5e:00.0", "3b:00.0=40,0 5e:00.0=40,0")
		hangs := make(chan struct{})
		r.set(one, answer{hangs: hangs, value: 99})
		r.after(24*time.Second, "3b:00.0, 5e:00.0", "3b:00.0=40,0 5e:00.0=40,0")
		compare.Equal(t, "log", "", r.logs())
		r.after(time.Second, "", "3b:00.0=-,1 5e:00.0=40,0")
		compare.Equal(t, "log", "sensors.failed 0000:3b:00.0 no answer within 10 s\n", r.logs())
		r.after(5*time.Second, "5e:00.0", "3b:00.0=-,2 5e:00.0=40,0") // the card isn't read a second time
		r.set(one, answer{value: 45})
		close(hangs)
		r.after(0, "", "3b:00.0=-,2 5e:00.0=40,0") // what was read is out of date
		r.after(15*time.Second, "3b:00.0, 5e:00.0", "3b:00.0=45,2 5e:00.0=40,0")
		compare.Equal(t, "log", "sensors.read 0000:3b:00.0 <nil>\n", r.logs())
	})
}

// TestSlow checks that a reading can take longer than the interval.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, sensors.Settings{Which: sensors.Main, Interval: 2 * time.Second}, node())
		slow := make(chan struct{})
		r.set(one, answer{hangs: slow, value: 44})
		r.devices.Store(node(device(one, "dfl")))
		r.after(8*time.Second, "3b:00.0", "3b:00.0=-,0")
		close(slow)
		r.after(0, "", "3b:00.0=44,0")
	})
}

// TestManyHang checks that cards that hang don't use up the concurrent readings, not even after they have returned.
func TestManyHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*inventory.Device
		r := start(t, sensors.Settings{Which: sensors.Main, Interval: time.Minute}, inventory.Snapshot{})
		hang := func() chan struct{} {
			hangs := make(chan struct{})
			for _, d := range all[:8] {
				r.set(d.PCIAddress, answer{hangs: hangs})
			}
			return hangs
		}
		for i := range 9 {
			all = append(all, device(fmt.Sprintf("0000:%02x:00.0", i+1), "dfl"))
		}
		for round := range 2 {
			hangs := hang()
			r.devices.Store(node(all...))
			for i, want := range []int{4, 8, 9} { // number of readings after 9, 19 and 29 s
				time.Sleep(time.Duration(9+min(i, 1)) * time.Second) // fake time
				synctest.Wait()
				r.mu.Lock()
				compare.Equal(t, fmt.Sprintf("round %d: readings after step %d", round, i), want, len(r.reads))
				r.mu.Unlock()
			}
			compare.Equal(t, "failures of the eighth card", round+1, r.s.Latest()["0000:08:00.0"].Failures)
			compare.Equal(t, "values of the ninth card", 2, len(r.s.Latest()["0000:09:00.0"].Summary))
			close(hangs)
			time.Sleep(30900 * time.Millisecond) // fake time, until just before the next round
			synctest.Wait()
			r.mu.Lock()
			r.reads = nil
			r.mu.Unlock()
		}
	})
}

// TestLeavesWhileRead plugs another card into the slot while the old one is still being read.
func TestLeavesWhileRead(t *testing.T) {
	for _, test := range []struct {
		name     string
		interval time.Duration
		before   string // what is shown when the card is removed, one interval later
		after    string // while the other card is waiting
	}{
		{"in time", 3 * time.Second, "3b:00.0=-,0", "3b:00.0=-,0"},
		{"overdue", 15 * time.Second, "3b:00.0=-,1", "3b:00.0=-,1"},
	} {
		bubble.Run(t, test.name, func(t *testing.T) {
			r := start(t, sensors.Settings{Which: sensors.Main, Interval: test.interval}, inventory.Snapshot{})
			hangs := make(chan struct{})
			r.set(one, answer{hangs: hangs, value: 99})
			r.devices.Store(node(device(one, "dfl")))
			r.after(test.interval-time.Millisecond, "3b:00.0", test.before)
			r.set(one, answer{value: 30})
			r.devices.Store(node())
			r.after(test.interval, "", "")
			r.devices.Store(node(device(one, "dfl")))
			r.after(test.interval, "", test.after)
			close(hangs)
			r.after(0, "", test.after) // not 99 °C
			r.after(test.interval, "3b:00.0", strings.Replace(test.after, "-", "30", 1))
		})
	}
}

// TestReplaced plugs another card into the slot between two readings, and checks that it never shows the old card's
// values. A container may hold the old card, in which case its device is still listed.
func TestReplaced(t *testing.T) {
	removed := device(one, "dfl")
	removed.Reasons = []string{inventory.ReasonRemovedInUse}
	for name, without := range map[string]inventory.Snapshot{"not in use": node(), "in use": node(removed)} {
		bubble.Run(t, name, func(t *testing.T) {
			r := start(t, quarter, node(device(one, "dfl")))
			r.after(time.Second, "3b:00.0", "3b:00.0=40,0")
			r.devices.Store(without)
			r.after(time.Second, "", "")
			r.devices.Store(node(device(one, "dfl")))
			r.after(time.Second, "", "")
			hangs := make(chan struct{})
			r.set(one, answer{hangs: hangs, value: 99})
			r.after(12*time.Second, "3b:00.0", "3b:00.0=-,0")
			r.devices.Store(without)
			r.after(time.Second, "", "")
			r.set(one, answer{value: 50})
			r.devices.Store(node(device(one, "dfl")))
			close(hangs) // reading the old card finishes
			r.after(time.Second, "", "")
			r.after(13*time.Second, "3b:00.0", "3b:00.0=50,0")
		})
	}
}

// TestFails checks that failures are counted, and that the first one is logged.
func TestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, quarter, node(device(one, "dfl")))
		r.after(0, "3b:00.0", "3b:00.0=40,0")
		r.set(one, answer{failures: 3})
		r.after(30*time.Second, "3b:00.0, 3b:00.0", "3b:00.0=-,6")
		compare.Equal(t, "log", "sensors.failed 0000:3b:00.0 input/output error\n", r.logs())
		r.set(one, answer{void: true}) // the daemon is out of descriptors
		r.after(15*time.Second, "3b:00.0", "3b:00.0=-,6")
		compare.Equal(t, "log", "", r.logs())
		r.set(one, answer{value: 41})
		r.after(15*time.Second, "3b:00.0", "3b:00.0=41,6")
		compare.Equal(t, "log", "sensors.read 0000:3b:00.0 <nil>\n", r.logs())
	})
}

// TestEnd checks that Run waits for a reading before it returns, but not for one that hangs.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		r := start(t, quarter, inventory.Snapshot{})
		r.set(one, answer{hangs: hangs})
		r.devices.Store(node(device(one, "dfl")))
		synctest.Wait()
		began := time.Now()
		r.end()
		compare.Equal(t, "time of the end", time.Second, time.Since(began))
		compare.Equal(t, "log", "sensors.failed 0000:3b:00.0 no answer before the end of the daemon\n", r.logs())
		close(hangs)
	})
}

func reader(host sysfs.Host, address string) func(all bool) sensors.Outcome {
	return sensors.New(sensors.Config{Host: host}, zap.NewNop()).Reader(address)
}

// running reads the sensors of these devices until the test ends, or until end is called.
func running(t *testing.T, host sysfs.Host, devices ...*inventory.Device) (s *sensors.Sensors, end func()) {
	settings := latest.New(quarter)
	s = sensors.New(sensors.Config{Host: host, Devices: snapshots{latest.New(node(devices...))}, Settings: settings.Load}, eventtest.Log(t))
	return s, task.Run(t, s.Run)
}

// unfold returns a host with a board from testdata/sysfs, or with the recorded N6001.
func unfold(t *testing.T, file string) sysfs.Host {
	root := t.TempDir()
	must.Succeed(t, board.Unfold(root, file))
	return sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
}

// TestRecorded reads a board several times.
func TestRecorded(t *testing.T) { synctest.Test(t, testRecorded) }

func testRecorded(t *testing.T) {
	const card = "0000:01:00.0"
	host := unfold(t, "../../internal/sensors/testdata/n6001.txtar")
	dir := must.Value(filepath.EvalSymlinks(host.Sys + "/class/hwmon/hwmon1"))(t)
	write := func(file, text string) { must.Succeed(t, os.WriteFile(dir+"/"+file, []byte(text), 0o600)) }
	read := reader(host, card)
	all := read(true)
	compare.Equal(t, "readings of all", 76, len(all.Readings))
	compare.Equal(t, "failures", 0, all.Failures)

	var readings []measured.Reading
	limit := func() float64 {
		readings = read(false).Readings
		i := slices.IndexFunc(readings, func(r measured.Reading) bool { return r.Name == "Board Bottom Near CVL Temperature" })
		return readings[i].Max
	}
	compare.Equal(t, "limit", 75, limit())
	compare.Equal(t, "readings of main", 34, len(readings))
	write("temp16_max", "80000")
	for range 19 {
		compare.Equal(t, "limit, kept", 75, limit())
	}
	compare.Equal(t, "limit, read again", 80, limit())

	// The device is replaced, so sysfs has a different inode.
	must.Succeed(t, os.Rename(dir, host.Sys+"/old"))
	must.Succeed(t, os.Mkdir(dir, 0o700))
	write("name", "other")
	write("temp1_input", "33000")
	time.Sleep(time.Second) // fake time
	compare.Values(t, "chips", []string{"other"}, chips(read(false)))
}

// TestLateDriver checks that a device that appears later than the card is found.
func TestLateDriver(t *testing.T) { synctest.Test(t, testLateDriver) }

func testLateDriver(t *testing.T) {
	host := unfold(t, "../../internal/sensors/testdata/n6001.txtar")
	must.Succeed(t, os.WriteFile(host.Sys+"/class/hwmon/hwmon0/temp1_input", []byte("40000\n"), 0o600))
	link := host.Sys + "/class/hwmon/hwmon1"
	must.Succeed(t, os.Rename(link, link+".aside"))
	must.Succeed(t, os.Rename(link+".aside", host.Sys+"/aside"))
	read := reader(host, "0000:01:00.0")
	compare.Values(t, "chips", []string{"dfl_fme_thermal"}, chips(read(false)))
	must.Succeed(t, os.Rename(host.Sys+"/aside", link))
	time.Sleep(time.Second) // fake time
	compare.Values(t, "chips", []string{"dfl_fme_thermal", "n6000bmc_hwmon"}, chips(read(false)))
}

// TestFailures reads a board with some failing sensors.
func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name               string
		files              []string
		content            string
		readings, failures int
	}{
		{"one sensor", []string{"temp20_input"}, "garbage", 33, 1},
		{"three sensors, not in a row", []string{"temp1_input", "temp9_input", "temp20_input"}, "garbage", 31, 3},
		{"three in a row", []string{"temp1_input", "temp2_input", "temp3_input", "temp4_input"}, "garbage", 0, 3},
		{"a limit", []string{"temp16_max"}, "garbage", 34, 1},
		{"a label", []string{"temp16_label"}, strings.Repeat("x", 5000), 34, 1},
		{"modules plugged out", []string{"temp1_input", "temp2_input", "temp3_input", "temp4_input"}, "", 30, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			host := unfold(t, "../../internal/sensors/testdata/n6001.txtar")
			for _, file := range test.files {
				must.Succeed(t, os.WriteFile(host.Sys+"/class/hwmon/hwmon1/"+file, []byte(test.content), 0o600))
			}
			read := reader(host, "0000:01:00.0")
			for range 2 { // what failed is retried
				o := read(false)
				compare.Equal(t, "readings", test.readings, len(o.Readings))
				compare.Equal(t, "failures", test.failures, o.Failures)
			}
		})
	}
}

// TestLeaves removes the card's files while they are being read, which must not count as a failure.
func TestLeaves(t *testing.T) {
	host := unfold(t, "../../testdata/sysfs/kernel-6.1-one-card.txtar")
	for _, file := range []string{"hwmon0/temp1_max", "hwmon1/power1_input"} {
		must.Succeed(t, os.Remove(host.Sys+"/class/hwmon/"+file))
		read := reader(host, "0000:01:00.0")
		read(true)
		must.Succeed(t, os.Remove(host.Sys+"/class/hwmon/hwmon0/temp1_input"))
		compare.Values(t, "outcome", sensors.Outcome{}, read(true))
		must.Succeed(t, os.WriteFile(host.Sys+"/class/hwmon/hwmon0/temp1_input", []byte("1000\n"), 0o600))
	}
}

// TestNoDevice checks that ENODEV from the driver counts as a failure if the card is still there.
func TestNoDevice(t *testing.T) {
	host := unfold(t, "../../testdata/sysfs/kernel-6.1-one-card.txtar")
	first := func() (failures int) { return reader(host, "0000:01:00.0")(true).Failures }
	// The last accesses open and read a value and two limits for each of two sensors, and look for a controller above
	// each sensor.
	const values, controllers = 2 * 3 * 2, 2
	end, failed := sysfstest.Refuse(t, -1, func() { first() })-controllers, 0
	for n := end - values; n < end; n++ {
		sysfstest.Fail(t, n, syscall.ENODEV, func() { failed += first() })
	}
	compare.Equal(t, "failures", values, failed)
}

// TestLimitFails checks that a limit that keeps failing doesn't cause the other limits to be reread each time.
func TestLimitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := unfold(t, "../../internal/sensors/testdata/n6001.txtar")
		read := reader(host, "0000:01:00.0")
		limit := host.Sys + "/class/hwmon/hwmon1/temp16_max"
		read(false)
		usual := sysfstest.Refuse(t, -1, func() { read(false) })
		must.Succeed(t, os.WriteFile(limit, []byte("garbage"), 0o600))
		read = reader(host, "0000:01:00.0")
		read(false)
		compare.Equal(t, "accesses", usual+2, sysfstest.Refuse(t, -1, func() { read(false) }))
	})
}

// TestFirmwareWithFailure reads versions from a controller that has a sensor that always fails.
func TestFirmwareWithFailure(t *testing.T) {
	n, host := plugged(t, one)
	must.Succeed(t, os.WriteFile(n.Sys+"/class/hwmon/hwmon2/temp1_input", []byte("garbage"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		s, _ := running(t, host, device(one, "dfl"))
		synctest.Wait()
		compare.Equal(t, "failures", 1, s.Latest()[one].Failures)
		compare.Equal(t, "firmware", "1.4.0", s.Latest()[one].Firmware.BMC)
	})
}

// TestAccesses counts the file accesses when nothing has changed and the devices have just been listed for another
// card. That leaves each sensor's value and the PCI function's values. The recorded functions don't have a power state,
// a link or error counts.
func TestAccesses(t *testing.T) {
	host := unfold(t, "../../testdata/sysfs/kernel-6.1-two-cards.txtar")
	for _, test := range []struct {
		address string
		want    int
	}{
		{"0000:01:00.0", 2*2 + 4},
		{"0000:00:02.0", 1}, // neither sensors nor a function
	} {
		read := reader(host, test.address)
		for range 3 {
			read(true)
		}
		compare.Equal(t, test.address, test.want, sysfstest.Refuse(t, -1, func() { read(true) }))
	}
}

func chips(o sensors.Outcome) (names []string) {
	for _, r := range o.Readings {
		names = append(names, r.Chip)
	}
	return slices.Compact(names)
}

// TestShortage makes each access of a reading fail in turn. That says nothing about the card, so no failures are
// counted. The very next reading returns everything, even the versions, which are usually kept for twenty readings.
func TestShortage(t *testing.T) {
	_, host := plugged(t, one)
	var read func(bool) sensors.Outcome
	var o sensors.Outcome
	first := func() {
		read = reader(host, one)
		o = read(true)
	}
	accesses, whole := sysfstest.Refuse(t, -1, first), o
	compare.Values(t, "firmware", measured.Firmware{BMC: "1.4.0", Build: "1.4.0", Image: "fpga_user1"}, whole.Firmware)
	for n := range accesses {
		sysfstest.Refuse(t, n, first)
		if l := len(o.Readings); o.Failures != 0 || l != 0 && l != len(whole.Readings) {
			t.Errorf("access %d: %d readings, %d failures", n, l, o.Failures)
		}
		compare.Values(t, fmt.Sprintf("next reading after a refused access %d", n), whole, read(true))
	}
}

// TestFIFO reads a file that really hangs, and another card at the same time.
func TestFIFO(t *testing.T) {
	host := unfold(t, "../../testdata/sysfs/kernel-6.1-two-cards.txtar")
	file := host.Sys + "/class/hwmon/hwmon0/temp1_input"
	must.Succeed(t, os.Remove(file))
	must.Succeed(t, syscall.Mkfifo(file, 0o600))
	s, end := running(t, host, device("0000:01:00.0", "dfl"), device("0000:02:00.0", "dfl"))
	patient.Until(t, "values of the other card", func() bool { return len(s.Latest()["0000:02:00.0"].Summary) > 0 })
	compare.Equal(t, "values of the card that hangs", 0, len(s.Latest()["0000:01:00.0"].Summary))
	end()
	writer := must.Value(os.OpenFile(file, os.O_WRONLY, 0))(t) // unblocks the read
	must.Succeed(t, writer.Close())
}

// TestPCI reads a simulated card's PCI function and firmware, and then the card dies.
func TestPCI(t *testing.T) {
	n, host := plugged(t, one)
	must.Succeed(t, n.SetFile(n.CardDir(one)+"/aer_dev_correctable", simnode.AER("COR", 3)+"\n"))
	synctest.Test(t, func(t *testing.T) {
		s, _ := running(t, host, device(one, "dfl"), device(two, "vfio"))
		after := func(d time.Duration, about string, want sensors.Card) {
			t.Helper()
			time.Sleep(d) // fake time
			synctest.Wait()
			all := s.Latest()
			got := all[one]
			got.Summary = nil
			compare.Values(t, about, want, got)
			compare.Values(t, "another card", sensors.Card{}, all[two])
		}
		errors := map[string]uint64{"RxErr": 0, "BadTLP": 0, "BadDLLP": 3, "Rollover": 0, "Timeout": 0, "NonFatalErr": 0, "CorrIntErr": 0, "HeaderOF": 0}
		firmware := measured.Firmware{BMC: "1.4.0", Build: "1.4.0", Image: "fpga_user1"}
		want := sensors.Card{PCI: sensors.PCI{Link: sysfs.Link{Speed: 80, MaxSpeed: 80, Width: 8, MaxWidth: 8}, Correctable: errors}, Firmware: firmware}
		after(0, "card", want)
		must.Succeed(t, n.SetFile(n.CardDir(one)+"/current_link_width", "4\n"))
		want.Link.Width = 4
		after(15*time.Second, "slower link", want)
		must.Succeed(t, n.SetFile(n.CardDir(one)+"/current_link_speed", "Unknown\n"))
		must.Succeed(t, n.SetFile(n.CardDir(one)+"/current_link_width", "63\n"))
		want.Link = sysfs.Link{}
		after(15*time.Second, "dead link", want)
	})
}
