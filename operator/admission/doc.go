// Package admission replaces the names that pods request with the resources they stand for.
//
// [Mutate] is pure: it takes a pod and the mappings of the pod's namespace, and returns the changed pod or the reason
// to deny it. [Handler] reads the mappings from a cache, and answers the API server with a patch. The patch only
// changes containers' resources and variables, so fields that only newer versions of Kubernetes know stay unchanged.
//
// # Trust
//
// Pods come from users and aren't trusted. Mappings come from the administrator and are trusted.
//
// A container's variables whose names begin with FPGA_REGION or FPGA_AFU are dropped. A pair of such variables stays
// only if a mapping in the namespace allows the pair, and if the pair belongs to a card that the container requests by
// resource name. This makes it safe to mutate a pod a second time.
//
// Variables from an image or envFrom aren't part of the pod, so admission doesn't see them. They can't replace the pair
// of a name in mode region: that pair uses up the name's card, and the hook rejects a container that has more pairs
// than cards.
//
// Admission doesn't prevent the following:
//
//   - A container can request a card without a pair: by resource name, if any mapping in the namespace stands for the
//     resource (Intel's webhook also allows this), or by the name of an FpgaRegion. The image or envFrom can then
//     select any function for this interface in the node's store. So a mapping in mode region doesn't limit a namespace
//     to one function, even if there is no FpgaRegion.
//   - Nodes in mode region and nodes in mode regiondevel advertise the same resource. A pod that requests a name in
//     mode region may run on a node in mode regiondevel, where it also gets the FME's device node.
//   - A pod that only requests resources in other domains is admitted unchanged.
//   - A pod's image can be changed after admission.
//
// # Memory and time
//
// Any pod in the cluster may be able to reach the webhook's port, so all memory is limited. A request's size must be
// known before its body is read. The memory for small bodies is limited by [httpd.ServeBodies]' number of connections,
// and larger bodies have a common limit in bytes. Only a few pods are decoded at a time, and only a few wait to be
// decoded. The smallest pods have limits of their own. If there is no room for a request, it is denied. Otherwise a
// flood of requests would disable the webhook where failurePolicy is Ignore.
//
// # What may block
//
// [Handler.Handle] waits for its turn to decode the pod, then for the cache to be filled, and then, if a name isn't in
// the cache, for the API server. In total, this takes at most three seconds, or half a second for a large pod. If too
// many requests are waiting for their turn, Handle may fail immediately. At most four requests read from the API server
// at a time, and only one for each namespace. There may be ten such reads per second, and two per second for each
// namespace. All other requests are answered from the cache. Handle is safe for concurrent use.
package admission
