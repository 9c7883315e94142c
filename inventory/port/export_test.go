package port

import (
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Read is readPort without the observations.
func Read(host sysfs.Host, dir string) (inventory.Unit, bool) {
	return readPort(host, dir, new([]sysfs.Observation))
}

// TakeAFU applies a result of reading afu_id, for tests of EBUSY and ENODEV, which no ordinary file
// returns.
func TakeAFU(p *inventory.Unit, id string, err error) (dead bool) {
	var f findings
	dead = f.takeAFU(p, id, err)
	p.Conditions, p.Files = f.Conditions, f.Files
	return dead
}

// Decoders returns the decoders of all files, by the names of the files. A decoder returns the conditions of a value,
// and whether the value comes from a part that does not answer.
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

// Join returns the conditions of a region to which these conditions are added.
func Join(conditions ...inventory.Condition) []inventory.Condition {
	var f findings
	for _, c := range conditions {
		f.join(c)
	}
	return f.Conditions
}
