// Package cdi keeps the Container Device Interface (CDI) spec file that tells
// the container runtime which nodes a device has, and which hook runs before each
// start of a container with the device.
//
// The runtime reads the file at every start of a container; what the kubelet
// was told at allocation it repeats from memory. So a device that comes back
// under another node number reaches a container that starts again only through
// this file. Format: the specification 1.1 of tags.cncf.io/container-device-interface.
//
// # Use
//
//	spec, err := cdi.Open("/var/run/cdi", "fpga.intel.com/fpga", "/dev")
//	err = spec.Write(devices)        // whenever devices or their nodes change
//	err = spec.Ensure()              // in Allocate, before a name is given away
//	name, ok := spec.Name("3b:00.0") // fpga.intel.com/fpga=3b:00.0
//	err = spec.Close()               // at exit
//
// # Who owns what
//
// A [Spec] owns three names in its directory, which follow from the kind alone,
// so that two instances on one node (surge upgrade) mean the same file: two
// files with the same devices would be a conflict, and neither would count.
//
//   - fpga.intel.com-fpga.json, the spec. Whatever has this name is ours to
//     replace: garbage, another's file, a link (which is replaced, not followed).
//     Only a directory is left alone, and said.
//   - .fpga.intel.com-fpga.lock, empty: each instance holds a shared flock(2) on
//     it as long as it lives. Who gets an exclusive one is alone: it may remove
//     what writers that were killed left behind and, when it leaves, the spec. So
//     the last to leave removes the spec, whoever wrote it last, and one that was
//     killed has left.
//   - .fpga.intel.com-fpga.*.tmp, a spec on its way. Readers of CDI pass over
//     what ends neither in .json nor in .yaml.
//
// A file is replaced in one step, and only after the library has read the new
// one as the runtime will. It is left alone when it already says the same. It has
// the lowest version of CDI that knows its fields, for the sake of old runtimes.
//
// # When the disk is full
//
// A new file needs room that a full disk does not have; removing a file needs none.
// If the new file cannot be written, the old one stays as long as each device in it
// has the right nodes and the right hook. If a device in it has other nodes, a container
// that starts could get another tenant's device; if its hook is missing or another, a
// container could start with another AFU than it asked for. Then the old file is removed,
// and the new one is tried again in the room that this has made. Without the file,
// containers with these devices do not start; the kubelet tries them again. Overwriting the
// old file in place would need no room, but a runtime could read half of it.
//
// # What may block
//
// Whatever touches the disk, up to a second: then the caller is told so and the
// disk is waited for by a goroutine of its own; until it has come back every
// call ends so. [Spec.Name] never blocks. All methods may be called at once.
package cdi
