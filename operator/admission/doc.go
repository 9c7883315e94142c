// Package admission replaces names in the resources of pods by the resources that they stand for.
//
// [Mutate] is pure: a pod and the mappings of its namespace in, a pod or the reason of a denial
// out. [Handler] reads the mappings from a cache, and answers the API server with a patch of the
// containers' resources and variables, and of nothing else: fields of a newer Kubernetes stay.
//
// # Trust
//
// Pods come from users, and are not trusted. Mappings come from the administrator.
//
// A container's variables whose names begin with FPGA_REGION or FPGA_AFU are dropped. The
// exception are pairs that a mapping of the namespace allows, for cards that the container asks
// for by the name of the resource: so a pod that was mutated may be mutated again.
//
// Variables of an image and of envFrom are not part of a pod, and are not seen here. The hook
// refuses a container that has more pairs than cards. So such a pair has no effect on a card that
// a name of mode region stands for: the pair of the name takes the card.
//
// Admission does not prevent these:
//
//   - A container may ask for a card by the name of the resource, without a pair, if any mapping
//     of the namespace stands for that resource (Intel's webhook allows it, too), or by the name of
//     an FpgaRegion. The image or envFrom can then name any function of that interface in the
//     node's store. So a mapping in mode region is no limit to one function, also where the
//     namespace has no FpgaRegion.
//   - Nodes in mode region and in mode regiondevel offer the same resource. A pod with a name of
//     mode region may run on a node in mode regiondevel, and then has the FME's node.
//   - A pod that names only resources of another domain is admitted unchanged.
//   - The image of a pod can be changed after admission.
//
// # What may block
//
// [Handler.Handle] waits until the cache has been filled, and for the API server where the cache
// lacks a name, for a bounded time. Few requests read from the API server at a time. Handle may be
// called concurrently.
package admission
