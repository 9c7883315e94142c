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
//   - The kubelet has not named it for some seconds, and has since written its checkpoint without it. If the checkpoint
//     does not tell, as for claims, the kubelet's answers that do not name the device must be complete (see below).
//   - The checkpoint has no entry of it. If an entry is left over, [Config.Refresh] makes the kubelet write the file
//     again: an entry in a file that is newer than the answer belongs to a container that is alive, unless the kubelet
//     does not know its pods yet. If the file is not written again, the entry counts until two complete answers no
//     longer name a container that an earlier answer named. If no answer has ever named one, the entry counts for the
//     grace time.
//
// While a source does not answer, what it reported last stays in use.
//
// An answer of the kubelet is complete if the kubelet has run for 10 s, lists the daemon's own pod (if it has one that
// is not static), and has not in the last 10 s listed a pod of the former kubelet for the first time. After a restart
// of the kubelet, an answer is also complete as soon as all pods are back. An answer with only static pods is not
// complete if the former kubelet listed others.
//
// A kubelet that loses its checkpoint forgets which devices its running pods have, and would give them out again. Merge
// notices: the former kubelet named a container, and this one lists its pod without the device. The device stays in use
// until the pod has left, and is withheld even under its own name.
//
// # What may block
//
// Ask blocks until the kubelet answers or ctx ends, and then for up to 300 ms more for the checkpoint. When the state
// directory begins to hang, one call blocks for up to 4 s more. Recent does not use the state directory, but it waits
// for calls of Ask. [Injected.Add] blocks for 2 s at most. All methods are safe for concurrent use. Merge is pure.
package holders
