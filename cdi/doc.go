// Package cdi maintains a Container Device Interface (CDI) spec file. For each device, the container runtime reads the
// device's nodes and environment variables from this file, and the hook to run each time before it starts a container
// with the device.
//
// The runtime reads the file each time it starts a container. The kubelet doesn't call the plugin again: when a
// container restarts, the kubelet reuses the answer from the first Allocate. So if a device's node number has changed
// since then, only this file gives the restarted container the new node. The file follows version 1.1 of the CDI
// specification (tags.cncf.io/container-device-interface).
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
// A [Spec] owns three file names in its directory. They depend only on the kind, so that two daemons on the same node
// (during an upgrade with surge) use the same file. Two files with the same devices would conflict, and the runtime
// wouldn't use either.
//
//   - fpga.intel.com-fpga.json is the spec. Any other file with this name is replaced, whether it is garbage, another
//     program's file, or a symbolic link (the link itself, not its target). Only a directory is left in place, and
//     reported as an error.
//   - .fpga.intel.com-fpga.lock is an empty file. Each daemon holds a shared flock(2) on it for as long as it runs. A
//     daemon that gets an exclusive lock is the only one running. It can then remove temporary files left by killed
//     daemons and, when it exits, the spec. So the last daemon to exit removes the spec, no matter which daemon wrote
//     it. A killed daemon doesn't count.
//   - .fpga.intel.com-fpga.*.tmp is a spec that is being written. CDI readers ignore names that end in neither .json
//     nor .yaml.
//
// The file is replaced atomically, after the library has read the new one the same way the runtime will. If the file
// already has the desired content, it isn't written. The spec declares the lowest CDI version that has its fields, so
// that old runtimes accept it.
//
// # When the disk is full
//
// Writing a new file needs space, which a full disk doesn't have, but removing a file doesn't. If the new file can't be
// written, the old one stays as long as each device in it has the right nodes, variables and hook. If a device's nodes
// are wrong, a container could be started with another tenant's device. If its variables are wrong, a container could
// use the wrong one of its own devices. If its hook is missing or wrong, a container could be started with a different
// AFU than it requested. In these cases the old file is removed, and writing the new one is retried in the space that
// this has freed. Without the file, containers with these devices don't start, and the kubelet retries them.
// Overwriting the old file in place wouldn't need space, but a runtime could read half of it.
//
// # What may block
//
// Every method except [Spec.Name] accesses the disk and blocks for up to a second. After that the caller gets an error,
// while a goroutine keeps waiting for the disk. Until the disk responds, every call returns an error after a second.
// All methods are safe for concurrent use.
package cdi
