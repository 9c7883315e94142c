// Package cdi maintains a Container Device Interface (CDI) spec file. For each device, the file lists the device nodes
// and environment variables that a container gets with the device, and the hook that the container runtime runs before
// it starts such a container.
//
// The runtime reads the file each time it starts a container. The kubelet doesn't call the plugin each time: when a
// container restarts, the kubelet reuses the answer from the first Allocate. If the number of a device node has changed
// since then, the restarted container gets the new device node only because of this file. The file follows version 1.1
// of the CDI specification (tags.cncf.io/container-device-interface).
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
//   - .fpga.intel.com-fpga.lock is an empty file. Each daemon holds a shared flock(2) on it for as long as it runs, so
//     a daemon that gets an exclusive lock is the only one running. It can then remove temporary files left by killed
//     daemons and, when it exits, the spec. The last daemon to exit therefore removes the spec, no matter which daemon
//     wrote it. Killed daemons don't hold a lock.
//   - .fpga.intel.com-fpga.*.tmp is a spec that is being written. CDI readers only read files whose names end in .json
//     or .yaml.
//
// The file is replaced atomically, after the library has read the new file as the runtime will. If the file already has
// the desired content, it isn't written. The spec declares the lowest CDI version that defines the fields it uses, so
// that old runtimes accept it.
//
// # When the disk is full
//
// A full disk has no space for a new file, but a file can still be removed. If the new file can't be written, the old
// one stays as long as each device in it has the right nodes, variables and hook. If a device's nodes are wrong, a
// container could be started with another tenant's device. If its variables are wrong, a container could use the wrong
// one of its own devices. If its hook is missing or wrong, a container could be started with a different AFU than it
// requested. In these cases the old file is removed, and the new one is written again, in the space that this has
// freed. Without the file, containers with these devices don't start, and the kubelet retries them. Overwriting the old
// file in place wouldn't need space, but a runtime could read a half-written file.
//
// # What may block
//
// Every method except [Spec.Name] accesses the disk and blocks for up to a second. After that it returns an error,
// while a goroutine keeps waiting for the disk. Until the disk responds, further calls also return an error after a
// second. All methods are safe for concurrent use.
package cdi
