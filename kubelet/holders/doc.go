// Package holders knows which containers use the devices of the node. It is the only place that decides this: for the
// device plugin and the DRA driver, the inventory, the commands, Events and metrics.
//
//	source := holders.New(holders.Config{Socket: …, KubeletDir: …, Allocations: allocations})
//	use := source.Ask(ctx)           // asks all sources, and merges what they say with what was known before
//	use = source.Recent(ctx)         // the same, but asks at most once a second
//
// # The sources
//
// No source knows everything, so [Merge] combines them:
//
//   - The daemon's own answers to Allocate ([Allocations]) are exact, but end with the daemon.
//   - The pod-resources API names pods and containers. It leaves out plain init containers. After its start, the
//     kubelet knows only some of its pods, and while the API server is away only the static ones.
//   - The kubelet's checkpoint contains every container with a device of a resource, init containers included, and the
//     device nodes that it was given. Entries of ended containers stay until the kubelet writes the file again.
//   - The DRA driver's claims.json contains the prepared claims.
//   - injected.json in the state directory ([Injected]) contains nodes that containers got through CDI.
//
// # When a device is free
//
// A device is in use from the first source that reports it. Its holder has ended when no source supports it any more:
//
//   - The kubelet no longer names it for some seconds, and has written its checkpoint without it since. If the checkpoint
//     does not tell, as for claims, the answers that do not name it must be complete: the kubelet has run for 10 s, lists
//     the daemon's own pod (unless that is no pod, or a static one), and has not listed a formerly known pod for the
//     first time within these 10 s. After a restart, an answer is also complete as soon as all pods are back, and it is
//     not complete while it has static pods only, although there were others before.
//   - The checkpoint has no entry of it. If an entry is left over, [Config.Refresh] makes the kubelet write the file
//     again: an entry in a file that is newer than the answer belongs to a container that is alive, or to a kubelet
//     that does not know its pods yet. If the file is not written again, the entry counts until two complete answers
//     lack a container that earlier answers named. If no answer ever named one, it counts for the grace time.
//
// While a source does not answer, what it reported last stays in use.
//
// A kubelet that loses its checkpoint forgets which devices its running pods have, and would give them out again. Merge
// notices: the former kubelet named a container, and this one lists its pod without the device. The device stays in use
// until the pod has left, and is withheld even under its own name.
//
// # What may block
//
// Ask blocks until the kubelet answers or ctx ends, and then for at most 300 ms more, for the checkpoint, and
// once for up to 4 s when the state directory begins to hang. Recent does not use the state directory, but calls wait for
// each other. [Injected.Add] blocks for 2 s at most. All methods are safe for concurrent use. Merge is pure.
package holders
