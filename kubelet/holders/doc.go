// Package holders determines which containers use the node's devices. This is the only place where that is decided: the
// device plugin, the DRA driver, the inventory, the commands, the Events and the metrics all use its result.
//
//	source := holders.New(holders.Config{Socket: …, KubeletDir: …, Allocations: allocations})
//	use := source.Ask(ctx)           // asks all sources and merges their answers with what was known before
//	use = source.Recent(ctx)         // the same, but asks at most once per second
//	source.Watch(ctx, log, f)        // calls f when another plugin has allocated devices
//
// # The sources
//
// No source knows everything, so [Merge] combines them:
//
//   - The daemon's own Allocate responses ([Allocations]) are exact, but they are lost when the daemon exits.
//   - The pod-resources API lists pods and containers, except ordinary init containers. A kubelet that has just started
//     knows only some of its pods, and as long as it can't reach the API server, only the static ones.
//   - The kubelet's checkpoint lists every container, including init containers, that got a device from a resource,
//     along with its device nodes. Entries for containers that have exited stay until the kubelet next writes the file.
//   - The host's cgroups show whether the pod of a checkpoint entry still has processes.
//   - allocated.json in the state directory contains the checkpoint's entries, including those that the kubelet removed
//     before this daemon started even though their pods still have processes.
//   - The DRA driver's claims.json lists the prepared claims.
//   - injected.json in the state directory ([Injected]) lists device nodes that containers got through CDI.
//
// # When a device is free
//
// A device is in use as soon as any source reports a holder. It becomes free when no source reports a holder any more,
// which means that:
//
//   - The kubelet hasn't listed the device for a few seconds, and has since written a checkpoint without it. For
//     claims, which aren't in the checkpoint, the kubelet's answers that don't list the device must be complete (see
//     below).
//   - The checkpoint has no entry for the device. If it has one, [Config.Refresh] makes the kubelet rewrite the file.
//     If an entry is in a file that is newer than the kubelet's answer, its container is alive, unless the kubelet
//     doesn't know its pods yet. If the file isn't rewritten, the entry counts until a container that an answer has
//     listed is missing from two complete answers in a row. If no answer has ever listed a container with the device,
//     the entry counts for the grace time.
//   - Pods that the kubelet has forgotten, because they were force-deleted, have no processes left. [Source.Ending]
//     tells Allocate about these pods, because the kubelet allocates their devices again immediately. If a process is
//     still there after [Ends], the device is withheld even under its own name.
//
// As long as a source doesn't answer, the devices in its last report count as in use.
//
// An answer from the kubelet is complete if the kubelet has been running for 10 s, lists the daemon's own pod (unless
// the daemon runs in a static pod or outside a pod), and none of the previous kubelet's pods has reappeared in the last
// 10 s. After a kubelet restart, an answer is also complete as soon as all pods are back. An answer that lists only
// static pods isn't complete if the previous kubelet listed others.
//
// A kubelet that loses its checkpoint forgets which devices its running pods have, and would allocate those devices a
// second time. Merge detects this: the previous kubelet listed a container with a device, and the current one lists the
// container's pod without it. The device stays in use until the pod is gone, and is withheld even under its own name.
//
// # What may block
//
// Ask blocks until the kubelet answers or ctx is done, and then for up to another 300 ms to read the checkpoint. If the
// state directory hangs, the first call to notice blocks for up to another 4 s, and Watch takes up to 2 s to return
// after ctx is done. Recent doesn't use the state directory, but it waits for any Ask in progress. [Source.Ending]
// waits while another goroutine parses the checkpoint. [Injected.Add] blocks for up to 2 s. All methods are safe for
// concurrent use. Merge is a pure function.
package holders
