// Package cdi maintains a Container Device Interface (CDI) spec file. For each device, the file lists the device nodes
// and environment variables that a container gets along with the device, and the hook that the container runtime runs
// before starting such a container.
//
// The runtime reads the file each time it starts a container. The kubelet, in contrast, doesn't call the plugin when a
// container restarts, but reuses the plugin's response to the first Allocate call. If a device node's number has
// changed since then, the restarted container gets the new device node only because of this file. The file follows
// version 1.1 of the CDI specification (tags.cncf.io/container-device-interface).
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
// (as during a surge upgrade) use the same files. If there were two specs with the same devices, they would conflict
// and the runtime wouldn't use either.
//
//   - fpga.intel.com-fpga.json is the spec. Any other file with this name is replaced, whether it is garbage, another
//     program's file, or a symbolic link (the link itself, not its target). A directory is left in place and reported
//     as an error.
//   - .fpga.intel.com-fpga.lock is an empty file. Each daemon holds a shared flock(2) on it for as long as it runs, so
//     a daemon that gets an exclusive lock is the only one running. It can then remove temporary files left by killed
//     daemons (which no longer hold a lock) and, when it exits, the spec. So the last daemon to exit removes the spec,
//     no matter which daemon wrote it.
//   - .fpga.intel.com-fpga.*.tmp is a spec that is being written. CDI readers only read files whose names end in .json
//     or .yaml.
//
// The spec is replaced atomically, after the library has read the new file the same way the runtime will. If the file
// already has the desired content, it isn't rewritten. The spec declares the lowest CDI version that defines the fields
// it uses, so that old runtimes accept it.
//
// # When the disk is full
//
// A full disk has no room for a new file, but files can still be removed. If the new file can't be written, the old one
// stays as long as each device in it has the right nodes, variables and hook. With the wrong nodes, a container could
// be started with another tenant's device. With the wrong variables, it could mix up its own devices. And with a
// missing or wrong hook, it could be started with a different AFU than it requested. In these cases, the old file is
// removed, which frees space for another attempt to write the new one. As long as there is no file, containers with
// these devices don't start, and the kubelet retries them. Overwriting the old file in place wouldn't need any space,
// but a runtime could read a half-written file.
//
// # What may block
//
// Every method except [Spec.Name] accesses the disk and blocks for up to a second. After that, it returns an error,
// while a goroutine keeps waiting for the disk. Until the disk responds, further calls also return an error after a
// second. All methods are safe for concurrent use.
package cdi
