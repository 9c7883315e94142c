package simnode

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// plugFME creates the FME in the order of the driver: manager, region, sensors, errors, and the driver
// link last.
func (n *Node) plugFME(t *tree, c *plugged) {
	name := "dfl-fme." + strconv.Itoa(c.FME)
	fme := filepath.Join(n.regionDir(c), name)
	_, major := n.majors()
	t.attributes(fme, attribute{"dev", fmt.Sprintf("%d:%d", major, c.FME)},
		attribute{"bitstream_id", "0x123000200000185"}, attribute{"ports_num", strconv.Itoa(c.Ports)})
	n.plugManager(t, fme, c)
	n.plugChild(t, fme, c)
	for i, sensor := range sensors {
		hwmon := "hwmon" + strconv.Itoa(c.HWMon[i])
		dir := filepath.Join(fme, "hwmon", hwmon)
		t.attributes(dir, sensor...)
		t.link(dir, n.sys(hwmonClass, hwmon))
	}
	t.attributes(filepath.Join(fme, "errors"), noErrors...)
	t.link(n.sys(driverDir, "dfl-fme"), filepath.Join(fme, "driver"))
	n.node(t, name, major, c.FME)
}

// plugManager creates the FPGA manager of the FME.
func (n *Node) plugManager(t *tree, fme string, c *plugged) {
	fpga := "fpga" + strconv.Itoa(c.Manager)
	manager := filepath.Join(fme, "dfl-fme-mgr."+strconv.Itoa(c.FME), "fpga_manager", fpga)
	t.attributes(manager, attribute{"name", "DFL FME FPGA Manager"}, attribute{"state", "unknown"})
	t.file(filepath.Join(manager, "status"), "") // without errors the file is empty
	t.link(manager, n.sys(managerClass, fpga))
}

// plugChild creates the region of the FME, which belongs to port 0.
func (n *Node) plugChild(t *tree, fme string, c *plugged) {
	device := filepath.Join(fme, "dfl-fme-region."+strconv.Itoa(c.Region))
	child := "region" + strconv.Itoa(c.Child)
	region := filepath.Join(device, "fpga_region", child)
	t.attributes(region, attribute{"compat_id", c.InterfaceID})
	t.link(device, filepath.Join(region, "device"))
	t.link(region, n.sys(regionClass, child))
}

// sensors are the two hwmon devices of an FME, in m°C and µW.
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

// noErrors are the error registers of an FME without errors.
var noErrors = []attribute{
	{"catfatal_errors", "0x0"}, {"nonfatal_errors", "0x0"}, {"fme_errors", "0x0"}, {"pcie0_errors", "0x0"},
	{"pcie1_errors", "0x0"}, {"first_error", "0x0"}, {"next_error", "0x0"}, {"inject_errors", "0x0"},
}
