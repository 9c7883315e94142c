// Package admission replaces the names that pods request with the resources they stand for.
//
// [Mutate] is pure: it takes a pod and the mappings in the pod's namespace, and returns the changed pod or the reason
// to deny it. [Handler] reads the mappings from a cache, and sends a patch to the API server. The patch only touches
// containers' resources and variables, so fields that only newer versions of Kubernetes know about are left alone.
//
// # Trust
//
// Pods come from users and aren't trusted. Mappings come from the administrator and are trusted.
//
// Variables whose names start with FPGA_REGION or FPGA_AFU are removed from containers. A pair of such variables is
// kept only if a mapping in the namespace allows it and if it belongs to a card that the container requests by resource
// name. This makes it safe to mutate a pod a second time.
//
// Variables from an image or envFrom aren't part of the pod, so admission doesn't see them. They can't replace the pair
// that belongs to a name in region mode: that pair uses up the name's card, and the hook rejects a container that has
// more pairs than cards.
//
// Admission doesn't prevent the following:
//
//   - A container can request a card without a pair: by resource name, if any mapping in the namespace stands for the
//     resource (Intel's webhook allows this too), or by an FpgaRegion's name. The image or envFrom can then select any
//     function for the card's interface in the node's store. So a mapping in region mode doesn't limit a namespace to
//     one function, even if there is no FpgaRegion.
//   - Nodes in region mode and nodes in regiondevel mode advertise the same resource. A pod that requests a name in
//     region mode may run on a node in regiondevel mode, where it also gets the FME's device node.
//   - A pod that only requests resources in other domains is admitted unchanged.
//   - A pod's image can be changed after admission.
//
// # Memory and time
//
// Any pod in the cluster may be able to reach the webhook's port, so all memory use is limited. A request's size must
// be known before its body is read. Small bodies are limited by [httpd.ServeBodies]' number of connections; larger
// bodies share a limit in bytes. Only a few pods are decoded at a time, and only a few more can wait for that. The
// smallest pods have limits of their own. If there is no room for a request, it is denied. Otherwise, a flood of
// requests could disable the webhook where failurePolicy is Ignore.
//
// # What may block
//
// [Handler.Handle] waits for its turn to decode the pod, then for the cache to be filled, and then, if a name isn't in
// the cache, for the API server. All of this takes at most three seconds, or half a second for a large pod. If too many
// requests are waiting for their turn, Handle may fail immediately. No more than four requests read from the API server
// at a time, and only one per namespace. There are at most ten such reads per second in total, and two per second for
// each namespace. All other requests are answered from the cache. Handle is safe for concurrent use.
package admission
