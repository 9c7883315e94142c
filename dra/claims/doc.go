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
// The file claims.json in the driver's directory is the only claim state. It is read each time it is used, because
// another instance of the driver may be running on the node during an upgrade. A write requires the flock on
// claims.lock, and replaces the file with a rename. The directory and its files must belong to the driver's user, and
// other users must not be able to write to them: see package privatedir. If there are no claims, the file does not
// exist.
//
// A file that is not valid, or that a newer driver has written, is never changed. All calls return an error then,
// because the driver does not know which devices are in use.
//
// A claim in the file is either prepared or waiting. A prepared claim owns its devices. A waiting claim doesn't own any
// devices, because one of its devices left the node before Prepare, or because the node was restarted. The record of a
// waiting claim makes the inventory list a device that has left as unhealthy. So the device is tainted, and the pod is
// evicted instead of being stuck.
//
// # Crashes
//
// Prepare first writes the record with the device nodes, then the CDI spec, and then answers. Unprepare first removes
// the CDI devices, and then the record. So a claim with CDI devices always has a record, and its devices cannot be
// given to another claim. The kubelet repeats a call that was not answered: the next Prepare completes the first one,
// or Unprepare removes the record.
//
// After a reboot all claims are waiting: their containers have ended, and devices may have different nodes, another AFU
// or another health. The kubelet calls Prepare again for each pod that it starts.
//
// # The CDI spec
//
// For each device of a prepared claim, the spec defines a CDI device with the nodes that the device has in the newest
// snapshot. If the device has left, or a reason withholds its nodes, the CDI device is left out. Otherwise a container
// that restarts would share a node with another container, or get another device. The spec is written under the lock,
// so that an instance cannot overwrite it with an older list of claims.
//
// The spec contains only nodes that are in the claim's record. No node is ever in the records of two claims, even if
// the claims have different devices. When a device gets other nodes, for example because its card was pulled and
// plugged in again, they are recorded first. The nodes stay in the record until the claim is unprepared. From the
// record, the inventory of the next driver learns that a container may have them open.
//
// # Metadata files
//
// For each request of a prepared claim, the CDI spec mounts a file with the attributes of its devices into the
// containers (KEP-5304). The files are in the directory metadata. Prepare creates them. Each write of the spec brings
// them up to date, and removes the files that are no longer mounted by any device. A file is replaced rather than
// modified, so a running container keeps the file that it was started with. The file also stores the pod's name for the
// claim, because this name is part of the path in the container.
//
// The files could also be written by the library of Kubernetes (kubeletplugin.EnableDeviceMetadata). But the library
// gives them CDI devices of their own, and the kubelet stores the names of these devices. If the files were turned off
// later, containers with a prepared claim could no longer be restarted. The files of forgotten claims would stay
// forever, and each changed device would have to be reported to the library.
//
// # Forgotten claims
//
// A kubelet that loses its state never calls Unprepare for the claims of running pods. So Run compares the file with
// the API server at startup and once an hour. It unprepares a claim if no pod can use it any more, and if the kubelet
// has not named its devices in two answers.
//
// # Programming
//
// A claim may require an AFU ([AcceleratorConfig]). Prepare checks that the store contains its bitstream, and records
// the AFU. The CDI devices of the claim then include the hook of accelerator-fpga, which programs the device on the
// host before each start of a container. This package does not program or open devices itself. If programming is turned
// off later, a device that already has the AFU gets a CDI device without the hook. A device with a different AFU
// doesn't get a CDI device.
//
// # What may block
//
// Every method except Added, Changed, Count and Ready accesses the disk. Run also queries the API server and the
// kubelet in a separate goroutine, and holds the lock during one request, for up to 2 s. Prepare also reads the store.
// It waits up to 30 s for a device that is unhealthy, and for the first complete snapshot. It does not hold the lock
// while it reads the store or waits. All methods are safe for concurrent use. Run must be called only once.
package claims
