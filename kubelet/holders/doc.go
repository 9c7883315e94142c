// Package holders determines which containers use the node's devices. This is the only place where that is decided, for
// the device plugin and the DRA driver, the inventory, the commands, Events and metrics.
//
//	source := holders.New(holders.Config{Socket: …, KubeletDir: …, Allocations: allocations})
//	use := source.Ask(ctx)           // asks all sources and merges their answers with what was known before
//	use = source.Recent(ctx)         // the same, but asks at most once per second
//
// # The sources
//
// No source knows everything, so [Merge] combines them:
//
//   - The daemon's own Allocate responses ([Allocations]) are exact, but are lost when the daemon exits.
//   - The pod-resources API lists pods and containers. It leaves out plain init containers. At first after its startup,
//     the kubelet knows only some of its pods, and while the API server is unreachable only the static ones.
//   - The kubelet's checkpoint contains every container that got a device from a resource, including init containers,
//     and the device nodes that the container was given. Entries of ended containers stay until the kubelet writes the
//     file again.
//   - The DRA driver's claims.json contains the prepared claims.
//   - injected.json in the state directory ([Injected]) contains nodes that containers got through CDI.
//
// # When a device is free
//
// A device is in use as soon as any source reports it. Its holder has ended when no source backs it up any more:
//
//   - The kubelet hasn't listed it for a few seconds, and has since written its checkpoint without it. If the
//     checkpoint can't show this, as for claims, the kubelet's answers without the device must be complete (see below).
//   - The checkpoint has no entry for it. If an entry is left over, [Config.Refresh] makes the kubelet rewrite the
//     file. An entry in a file that is newer than the answer belongs to a container that is alive, unless the kubelet
//     doesn't know its pods yet. If the file isn't rewritten, the entry counts until two complete answers no longer
//     list a container that an earlier answer listed. If no answer has ever listed one, the entry counts for the grace
//     time.
//
// While a source doesn't answer, the devices it last reported stay in use.
//
// An answer from the kubelet is complete if the kubelet has been running for 10 s, lists the daemon's own pod (if the
// daemon runs in one that isn't static), and hasn't listed any of the previous kubelet's pods for the first time within
// the last 10 s. After a kubelet restart, an answer is also complete as soon as all pods are back. An answer with only
// static pods isn't complete if the previous kubelet listed others.
//
// A kubelet that loses its checkpoint forgets which devices its running pods have, and would give them out again. Merge
// notices this: the previous kubelet listed a container with the device, and this one lists the container's pod without
// it. The device stays in use until the pod is gone, and is withheld even under its own name.
//
// # What may block
//
// Ask blocks until the kubelet answers or ctx is done, and then for up to 300 ms more for the checkpoint. When the state
// directory starts to hang, one call blocks for up to 4 s more. Recent doesn't use the state directory, but it waits
// for calls of Ask. [Injected.Add] blocks for up to 2 s. All methods are safe for concurrent use. Merge is pure.
package holders
