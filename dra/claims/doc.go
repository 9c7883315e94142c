// Package claims prepares the devices of ResourceClaims for pods. It records the devices of each claim on
// disk, and writes the CDI spec file from which the container runtime reads their nodes and variables.
//
//	c, err := claims.Open(claims.Config{Dir: "/var/lib/kubelet/plugins/accelerator.b-com.com", …})
//	go c.Run(ctx)                       // keeps the CDI spec up to date with the claims and the newest snapshot
//	result := c.Prepare(ctx, claim)     // before the first pod of a claim starts
//	err = c.Unprepare(ctx, object)      // after the last pod of a claim has ended
//	held, err := c.Holdings(ctx)        // for the inventory, which lists a held device even after it has left
//
// # The file
//
// The file claims.json in the driver's directory is the only state about claims. It is read at each use,
// because another instance of the driver may run on the node during an upgrade. A write requires the flock on
// claims.lock, and replaces the file with a rename. The directory and its files must belong to the driver's
// user, and other users must not be able to write to them: see package privatedir. Without claims there is no
// file.
//
// A file that is not valid, or that a newer driver has written, is never changed: each call returns an
// error, because the driver does not know which devices are in use.
//
// A claim in the file is prepared or waiting. A prepared claim has its devices. A waiting claim has none,
// because one of its devices had left the node before Prepare, or the node was restarted. Because of its
// record, the inventory lists a device that has left as unhealthy, so that it is tainted and the pod is
// evicted instead of being stuck.
//
// # Crashes
//
// Prepare writes the record with the device nodes, then the CDI spec, and then answers. Unprepare removes the CDI devices, and
// then the record. So a claim that has CDI devices always has a record, and no other claim can get its devices. The
// kubelet repeats a call that has not been answered: the next Prepare completes the first, or Unprepare
// removes the record.
//
// After a reboot all claims are waiting: their containers have ended, and devices may have other nodes, another
// AFU or another health. The kubelet calls Prepare again for each pod that it starts.
//
// # The CDI spec
//
// The spec has a CDI device for each device of a prepared claim, with the nodes that the device has in the
// newest snapshot. If the device has left, or a reason withholds its nodes, the CDI device is missing: a
// container that starts again would share a node with another container, or get another device. The spec is
// written under the lock, so that an instance cannot overwrite it with an older list of claims.
//
// The spec has only nodes that are in the record of the claim, and no node is in the records of two claims, even if
// they have different devices. When a device gets other nodes, for example because its card was pulled and plugged in
// again, they are recorded first. They stay in the record until the claim is unprepared, because the record is how the
// inventory of the next driver learns that a container may have them open.
//
// # Metadata files
//
// For each request of a prepared claim, the CDI spec mounts a file with the attributes of its devices into the containers
// (KEP-5304). The files are in the directory metadata. Prepare creates them, and each write of the spec brings them up to
// date and removes those that no device of the spec mounts. A file is replaced, so a container that runs keeps the one that
// it was started with. The file also stores the name by which the pod has the claim, which is part of the mount's path.
//
// The files could also be written by the library of Kubernetes (kubeletplugin.EnableDeviceMetadata). They would then have
// CDI devices of their own, whose names the kubelet stores: after the files are switched off, no container of a prepared
// claim could start again. The files of forgotten claims would stay for ever, and a changed device would have to be
// reported to the library by hand.
//
// # Forgotten claims
//
// A kubelet that loses its state never calls Unprepare for the claims of running pods. So Run compares the file with the
// API server, at the start and each hour. A claim that no pod can use any more, and whose devices the kubelet does not
// name in two answers, is unprepared.
//
// # Programming
//
// A claim may require an AFU ([AcceleratorConfig]). Prepare checks that the store has its bitstream, and records the
// AFU. The CDI devices of the claim then have the hook of accelerator-fpga, which programs them on the host before
// each start of a container. This package programs nothing and opens no device. If programming is switched off
// later, a device that has the AFU gets a CDI device without the hook, and a device with another AFU gets none.
//
// # What may block
//
// Every method except Added, Changed, Count and Ready accesses the disk. Run also asks the API server and the kubelet, in a
// goroutine of its own, and holds the lock during one request of 2 s at most. Prepare also reads the store. It waits up to 30 s for
// a device that is unhealthy, and for the first complete snapshot. It holds no lock while it reads the store or waits.
// All methods are safe for concurrent use. Run is called once.
package claims
