package port

import (
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Read calls readPort and drops the observations.
func Read(host sysfs.Host, dir string) (inventory.Unit, bool) {
	return readPort(host, dir, new([]sysfs.Observation))
}

// TakeAFU applies the result of reading afu_id. Tests need it for EBUSY and ENODEV, which no regular file returns.
func TakeAFU(p *inventory.Unit, id string, err error) (dead bool) {
	var f findings
	dead = f.takeAFU(p, id, err)
	p.Conditions, p.Files = f.Conditions, f.Files
	return dead
}

// Decoders returns all files' decoders by file name. A decoder returns the conditions for a value, and whether the
// value comes from a part that doesn't respond.
func Decoders() map[string]func(value string) (found []inventory.Condition, dead bool, err error) {
	all := map[string]func(string) ([]inventory.Condition, bool, error){}
	for _, file := range slices.Concat(portFiles, DFL.errors, OPAE.errors, OPAE.alarms, []file{managerFile}) {
		all[file.name] = func(value string) ([]inventory.Condition, bool, error) {
			var f findings
			dead, err := file.decode(value, &f)
			return f.Conditions, dead, err
		}
	}
	return all
}

// Join adds these conditions to a region and returns the result.
func Join(conditions ...inventory.Condition) []inventory.Condition {
	var f findings
	for _, c := range conditions {
		f.join(c)
	}
	return f.Conditions
}
