// Package cdi keeps the spec file of the Container Device Interface (CDI). The container runtime reads from this file
// the nodes of a device, the environment variables that name it, and the hook that it runs before each start of a
// container with the device.
//
// The runtime reads the file at every start of a container. The kubelet does not ask the plugin again: when a container
// restarts, it repeats the answer of the first Allocate. So if the node number of a device has changed since, only this
// file gives the new node to the restarted container. The file follows version 1.1 of the CDI specification
// (tags.cncf.io/container-device-interface).
//
// # Use
//
//	spec, err := cdi.Open("/var/run/cdi", "fpga.intel.com/fpga", "/dev")
//	err = spec.Write(devices)        // when devices or their nodes change, at intervals, and in Allocate
//	name, ok := spec.Name("3b:00.0") // fpga.intel.com/fpga=3b:00.0
//	err = spec.Close()               // at exit
//
// # Files
//
// A [Spec] owns three names in its directory. They follow from the kind alone, so that two
// daemons on one node (an upgrade with surge) use the same file. Two files with the same devices
// would be a conflict, and the runtime would use neither.
//
//   - fpga.intel.com-fpga.json is the spec. Any other file with this name is replaced:
//     garbage, the file of another program, a symbolic link (the link itself, not its target).
//     Only a directory is left in place, and reported as an error.
//   - .fpga.intel.com-fpga.lock is an empty file. Each daemon holds a shared flock(2) on it for as long as it runs. A
//     daemon that gets an exclusive lock is the only one. It may then remove the temporary files of killed daemons and,
//     when it ends, the spec. So the last daemon to end removes the spec, whichever daemon wrote it. A killed daemon
//     does not count.
//   - .fpga.intel.com-fpga.*.tmp is a spec that is being written. CDI readers ignore names that
//     end in neither .json nor .yaml.
//
// A file is replaced in one step, after the library has read the new one as the runtime will. A file that already
// contains the wanted content is not written. The spec declares the lowest version of CDI that has its fields, so that
// old runtimes accept it.
//
// # When the disk is full
//
// A new file needs space that a full disk does not have; removing a file needs none. If the new file cannot be written,
// the old one stays as long as each device in it has the right nodes, variables and hook. If a device in it has other
// nodes, a container that starts could get another tenant's device. With other variables, it could use the wrong one of
// its own devices. If a hook is missing or differs, a container could start with another AFU than it requested. In
// these cases the old file is removed, and the new one is written again in the space that this has freed. Without the
// file, containers with these devices do not start; the kubelet tries them again. Overwriting the old file in place
// would need no space, but a runtime could read half of it.
//
// # What may block
//
// Every method except [Spec.Name] accesses the disk and blocks for up to a second. After that
// the caller gets an error, and a goroutine keeps waiting for the disk. Until the disk has
// answered, every call returns an error after a second. All methods are safe for concurrent use.
package cdi
