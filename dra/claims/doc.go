// Package claims prepares ResourceClaims' devices for pods. It records each claim's devices on disk, and writes the CDI
// spec file, from which the container runtime learns their device nodes and environment variables.
//
//	c, err := claims.Open(claims.Config{Dir: "/var/lib/kubelet/plugins/accelerator.b-com.com", …})
//	go c.Run(ctx)                       // keeps the CDI spec up to date with the claims and the newest snapshot
//	result := c.Prepare(ctx, claim)     // before the first pod of a claim starts
//	err = c.Unprepare(ctx, object)      // after the last pod of a claim has ended
//	held, err := c.Holdings(ctx)        // for the inventory, which lists a held device even after it has left
//
// # The file
//
// All claim state is in the file claims.json in the driver's directory. It is reread before each use, because another
// instance of the driver may be running on the node during an upgrade. A writer must hold the flock on claims.lock, and
// replaces the file by renaming. The directory and its files must belong to the driver's user, and no one else may have
// write access (see package privatedir). If there are no claims, there is no file.
//
// A file that isn't valid, or that was written by a newer driver, is never changed. All calls then return an error,
// because the driver can't know which devices are in use.
//
// A claim in the file is either prepared or waiting. A prepared claim owns its devices. A waiting claim doesn't own
// any: one of its devices left the node before Prepare, or the node was restarted. A waiting claim's record makes the
// inventory list the missing device as unhealthy. The device is therefore tainted, and the pod is evicted instead of
// getting stuck.
//
// # Crashes
//
// Prepare writes the record with the device nodes, then the CDI spec, and then answers. Unprepare removes the CDI
// devices and then the record. So a claim with CDI devices always has a record, and no other claim can get its devices.
// The kubelet retries calls that weren't answered, so a second Prepare completes the first one, or Unprepare removes
// the record.
//
// After a reboot, all claims are waiting: their containers have ended, and the devices' nodes, AFUs or health may have
// changed. The kubelet calls Prepare for each pod that it starts.
//
// # The CDI spec
//
// For each device of a prepared claim, the spec defines a CDI device with the device nodes from the newest snapshot. It
// omits devices that have left and devices whose nodes are withheld for a health reason. Otherwise, a container that
// restarts could share a node with another container, or get the wrong device. The spec is written under the lock, so
// that no instance overwrites it with an older list of claims.
//
// The spec contains only nodes that are in the claim's record. No node is ever in two claims' records, even if the
// claims have different devices. When a device gets new nodes, for example because its card was pulled and plugged in
// again, they are recorded before they are written to the spec. Nodes stay in the record until the claim is unprepared,
// so that the next driver's inventory knows that a container may have them open.
//
// # Metadata files
//
// For each request of a prepared claim, the CDI spec mounts a file with the attributes of the request's devices into
// the containers (KEP-5304). Prepare creates the files in the metadata directory. Whenever the spec is written, the
// files are brought up to date, and files that no device mounts any more are removed. A file is replaced rather than
// modified, so a running container keeps the one it was started with. The file also stores the name that the pod uses
// for the claim, which is part of the path in the container.
//
// We don't let the Kubernetes library write the files (kubeletplugin.EnableDeviceMetadata), because it would give them
// CDI devices of their own, whose names the kubelet stores. If the files were turned off later, containers with
// prepared claims could no longer restart. Also, forgotten claims' files would stay forever, and we would have to
// report every changed device to the library.
//
// # Forgotten claims
//
// A kubelet that has lost its state never calls Unprepare for the claims of running pods. So Run compares the file with
// the API server two minutes after startup and then once an hour. It unprepares a claim if no pod can use it any more
// and the claim's devices are missing from two of the kubelet's answers.
//
// # Programming
//
// A claim can require an AFU ([AcceleratorConfig]). Prepare checks that the store contains the AFU's bitstream, and
// records the AFU. The claim's CDI devices then include accelerator-fpga's hook, which programs the device on the host
// whenever a container starts. This package never programs or opens devices itself. If programming is turned off later,
// devices that already have the AFU get a CDI device without the hook, and other devices don't get a CDI device at all.
//
// # What may block
//
// Every method except Added, Changed, Count and Ready accesses the disk. In a separate goroutine, Run also queries the
// API server and the kubelet. It holds the lock during one of these queries, for up to 2 s. Prepare also reads the
// store, and waits up to 30 s for an unhealthy device or the first complete snapshot, both without holding the lock.
// All methods are safe for concurrent use. Run must be called only once.
package claims
