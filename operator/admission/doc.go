// Package admission replaces the names that pods ask for by the resources that they stand for.
//
// [Mutate] is pure: a pod and the mappings of its namespace in, a pod or the reason of a denial
// out. [Handler] reads the mappings from a cache, and answers the API server with a patch of the
// containers' resources and variables, and of nothing else: fields of a newer Kubernetes stay.
//
// # Trust
//
// The pod is text of its author. Mappings are the administrator's: they decide which functions a
// namespace may use. A container's variables whose names begin with FPGA_REGION or FPGA_AFU are
// dropped, but for pairs that a mapping of the namespace allows, so that a pod that was mutated
// may be mutated again. Variables of an image or of envFrom are not in a pod. The hook refuses a
// pair for which the container has no card left. So they have an effect only if a pod asks for
// cards by the name of the resource, without a pair.
//
// # What may block
//
// [Handler.Handle] waits until the cache has been filled, for a bounded time. It keeps no state,
// and may be called concurrently.
package admission
