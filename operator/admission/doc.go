// Package admission replaces names in the resources of pods by the resources that they stand for.
//
// [Mutate] is pure: it takes a pod and the mappings of its namespace, and returns the changed pod
// or the reason to deny it. [Handler] reads the mappings from a cache, and answers the API server
// with a patch. The patch changes only resources and variables of containers: unknown fields of
// a newer Kubernetes stay.
//
// # Trust
//
// Pods come from users, and are not trusted. Mappings come from the administrator.
//
// A container's variables whose names begin with FPGA_REGION or FPGA_AFU are dropped. Pairs stay
// if a mapping of the namespace allows them, for cards that the container requests by the name of
// the resource. So a mutated pod can be mutated again.
//
// Variables of an image and of envFrom are not part of a pod, so admission does not see them. They
// cannot replace the pair of a name in mode region: that pair has the name's card, and the hook
// refuses a container that has more pairs than cards.
//
// Admission does not prevent these:
//
//   - A container may request a card by the name of the resource, without a pair, if any mapping
//     of the namespace stands for that resource (Intel's webhook allows it, too), or by the name of
//     an FpgaRegion. The image or envFrom can then name any function of that interface in the
//     node's store. So a mapping in mode region does not limit a namespace to one function, even
//     if there is no FpgaRegion.
//   - Nodes in mode region and in mode regiondevel offer the same resource. A pod with a name of
//     mode region may run on a node in mode regiondevel, and then gets the device node of the FME.
//   - A pod that requests only resources of another domain is admitted unchanged.
//   - The image of a pod can be changed after admission.
//
// # Memory and time
//
// Any pod of the cluster may reach the webhook's port. So the size of a request is known before its body is read:
// small bodies are limited by the number of connections of [httpd.ServeBodies], and the larger ones together by
// their bytes. Few pods are decoded at a time, the smallest ones apart from the others, and few wait for that.
// Requests for which there is no room are denied, so that a flood does not switch the webhook off where failurePolicy
// is Ignore.
//
// # What may block
//
// [Handler.Handle] waits for its turn to decode, until the cache has been filled, and for the API server if the cache
// lacks a name, at most three seconds in total, or half a second for a large pod. It does not wait for its turn if
// many others do. At most four requests read from the API server at a time, one of each namespace, and ten in a second,
// two of each namespace; the others are answered from the cache. Handle may be called concurrently.
package admission
