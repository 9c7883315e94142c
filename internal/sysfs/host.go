package sysfs

// Host is the node that is read.
type Host struct {
	Sys string // root of the sysfs tree, /sys
	Dev string // directory of the device nodes, /dev
	// Simulated is true where Sys is not a true sysfs: there a regular file
	// passes for a device node.
	Simulated bool
}
