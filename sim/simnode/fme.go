package simnode

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// plugFME creates the FME's files in the driver's order: manager, region, sensors, controller, errors, and finally the
// driver link.
func (n *Node) plugFME(t *tree, c *plugged) {
	name := "dfl-fme." + strconv.Itoa(c.FME)
	fme := filepath.Join(n.regionDir(c), name)
	_, major := n.majors()
	t.attributes(fme, attribute{"dev", fmt.Sprintf("%d:%d", major, c.FME)},
		attribute{"bitstream_id", "0x123000200000185"}, attribute{"ports_num", strconv.Itoa(c.Ports)})
	n.plugManager(t, fme, c)
	n.plugChild(t, fme, c)
	for i, sensor := range sensors {
		n.plugHWMon(t, fme, c.HWMon[i], sensor)
	}
	n.plugBMC(t, fme, c)
	t.attributes(filepath.Join(fme, "errors"), noErrors...)
	t.link(n.sys(driverDir, "dfl-fme"), filepath.Join(fme, "driver"))
	n.node(t, name, major, c.FME)
}

// plugManager creates the files for the FME's FPGA manager.
func (n *Node) plugManager(t *tree, fme string, c *plugged) {
	fpga := "fpga" + strconv.Itoa(c.Manager)
	manager := filepath.Join(fme, "dfl-fme-mgr."+strconv.Itoa(c.FME), "fpga_manager", fpga)
	t.attributes(manager, attribute{"name", "DFL FME FPGA Manager"}, attribute{"state", "unknown"})
	t.file(filepath.Join(manager, "status"), "") // empty if there are no errors
	t.link(manager, n.sys(managerClass, fpga))
}

// plugChild creates the files for the FME's region, which belongs to port 0.
func (n *Node) plugChild(t *tree, fme string, c *plugged) {
	device := filepath.Join(fme, "dfl-fme-region."+strconv.Itoa(c.Region))
	child := "region" + strconv.Itoa(c.Child)
	region := filepath.Join(device, "fpga_region", child)
	t.attributes(region, attribute{"compat_id", c.InterfaceID})
	t.link(device, filepath.Join(region, "device"))
	t.link(region, n.sys(regionClass, child))
}

// plugHWMon creates a hwmon device's files below the device at dir.
func (n *Node) plugHWMon(t *tree, dir string, number int, files []attribute) {
	hwmon := "hwmon" + strconv.Itoa(number)
	dir = filepath.Join(dir, "hwmon", hwmon)
	t.attributes(dir, files...)
	t.link(dir, n.sys(hwmonClass, hwmon))
}

// plugBMC creates the board controller's files, as drivers/mfd/intel-m10-bmc-pmci.c and its children do. It also
// creates the boot image's file, although of the real drivers, only OFS's show the boot image. The controller's devices
// get the FME's number.
func (n *Node) plugBMC(t *tree, fme string, c *plugged) {
	bmc := filepath.Join(fme, "dfl_dev."+strconv.Itoa(c.FME))
	t.attributes(bmc, attribute{"bmc_version", "0x10400"}, attribute{"bmcfw_version", "0x10400"})
	child := func(name string) string { return filepath.Join(bmc, fmt.Sprintf("n6000bmc-%s.%d.auto", name, c.FME)) }
	t.attributes(filepath.Join(child("sec-update"), "control"), attribute{"fpga_boot_image", "fpga_user1"})
	n.plugHWMon(t, child("hwmon"), c.HWMon[len(sensors)], board)
}

// board contains some of the sensors on an N6001's board controller (drivers/hwmon/intel-m10-bmc-hwmon.c).
var board = []attribute{
	{"name", "n6000bmc_hwmon"},
	{"temp1_label", "FPGA FABRIC Digital Temperature#1"}, {"temp1_input", "48500"}, {"temp1_max", "90000"}, {"temp1_crit", "100000"},
	{"temp2_label", "Board Front Side Temperature"}, {"temp2_input", "41000"}, {"temp2_max", "75000"}, {"temp2_crit", "95000"},
	{"power1_label", "Board Power"}, {"power1_input", "50909000"},
	{"in1_label", "Inlet 12V PCIe Rail Voltage"}, {"in1_input", "11896"},
	{"curr1_label", "Inlet 12V PCIe Rail Current"}, {"curr1_input", "2365"}, {"curr1_max", "5748"}, {"curr1_crit", "6045"},
}

// sensors contains the attributes of an FME's two hwmon devices, in m°C and µW.
var sensors = [...][]attribute{
	{
		{"name", "dfl_fme_thermal"}, {"temp1_input", "47000"},
		{"temp1_max", "93000"}, {"temp1_max_alarm", "0"}, {"temp1_max_policy", "0"},
		{"temp1_crit", "90000"}, {"temp1_crit_alarm", "0"}, {"temp1_emergency", "95000"},
	},
	{
		{"name", "dfl_fme_power"}, {"power1_input", "50000000"},
		{"power1_max", "0"}, {"power1_max_alarm", "0"}, {"power1_crit", "0"}, {"power1_crit_alarm", "0"},
		{"power1_fpga_limit", "0"}, {"power1_xeon_limit", "0"}, {"power1_ltr", "0"},
	},
}

// noErrors contains the error registers of an FME that hasn't had any errors.
var noErrors = []attribute{
	{"catfatal_errors", "0x0"}, {"nonfatal_errors", "0x0"}, {"fme_errors", "0x0"}, {"pcie0_errors", "0x0"},
	{"pcie1_errors", "0x0"}, {"first_error", "0x0"}, {"next_error", "0x0"}, {"inject_errors", "0x0"},
}
