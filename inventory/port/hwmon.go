package port

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// hwmonAlarm is a kind of alarm. The file name is SENSOR followed by suffix, and SENSOR becomes the reason's value.
type hwmonAlarm struct {
	suffix string
	inventory.Row
}

// readHWMon judges the alarms of the hwmon devices below an FME. All alarms share a single health file, because hwmon
// device numbers change.
func (f *fme) readHWMon(top *listing, p pattern) {
	dirs, err := top.find(p.path)
	absent := err == nil
	for _, dir := range dirs {
		children, derr := os.ReadDir(dir)
		if derr != nil && !sysfs.Gone(derr) {
			err, absent = errors.Join(err, derr), false
		}
		for _, c := range children {
			if f.readAlarm(p.name, dir, c.Name()) {
				absent = false
			}
		}
	}
	worst := hwmonAlarms[0].Row
	f.Files = append(f.Files, inventory.HealthFile{Name: p.name, Absent: absent, Lost: worst.Health, Row: worst.Name})
	if err != nil {
		f.AddUnreadable(p.name, worst, err)
	}
}

// readAlarm judges the file with this name in a hwmon device's directory. It returns false if the file isn't an alarm
// or doesn't exist.
func (f *fme) readAlarm(hwmon, dir, name string) (read bool) {
	for _, alarm := range hwmonAlarms {
		sensor, ok := strings.CutSuffix(name, alarm.suffix)
		if !ok || sensor == "" {
			continue
		}
		set, err := pci.ReadAs(&f.findings.Findings, dir+"/"+name, parseFlag)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false
		case err != nil:
			f.AddUnreadable(hwmon+"/"+name, alarm.Row, err)
		case set:
			f.AddValue(alarm.Row, sensor)
		}
		return true
	}
	return false
}
