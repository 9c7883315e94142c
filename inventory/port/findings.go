package port

import (
	"fmt"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// findings contains the results of reading a port's or an FME's files.
type findings struct{ pci.Findings }

// file is a health file, with its name in readings and a decoder for its value.
type file struct {
	name string
	decoder
}

// judge reads the file at path and adds its conditions. dead means the same as in [decoder].
func (f *findings) judge(file file, path string) (dead bool) {
	value, err := sysfs.Read(path)
	return f.addResult(file, path, value, err)
}

// addResult adds the result of reading the file at path. dead means the same as in [decoder].
func (f *findings) addResult(file file, path, value string, err error) (dead bool) {
	if f.AddFile(file.name, file.worst(), err) {
		return false
	}
	if err == nil {
		f.Observe(sysfs.ObserveValue(path, value))
		if dead, err = file.decode(value, f); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		f.AddUnreadable(file.name, file.worst(), err)
	}
	return dead
}
