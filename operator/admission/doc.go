// Package admission replaces the names that pods request with the resources that the names stand for.
//
// [Mutate] is pure: it takes a pod and the mappings of its namespace, and returns the changed pod or the reason to deny
// it. [Handler] reads the mappings from a cache, and answers the API server with a patch. The patch changes only the
// resources and variables of containers, so fields that only a newer Kubernetes knows stay unchanged.
//
// # Trust
//
// Pods come from users and are not trusted. Mappings come from the administrator and are trusted.
//
// Variables of a container whose names begin with FPGA_REGION or FPGA_AFU are dropped. Such a pair of variables stays
// only if a mapping of the namespace allows it, and if it belongs to a card that the container requests by its resource
// name. So mutating a pod a second time is safe.
//
// Variables of an image and of envFrom are not part of a pod, so admission does not see them. They can't replace a
// region-mode name's pair: that pair uses up the name's card, and the hook refuses a container that has more pairs than
// cards.
//
// Admission does not prevent the following:
//
//   - A container may request a card without a pair: by its resource name if any mapping of the namespace stands for
//     the resource (Intel's webhook allows this, too), or by the name of an FpgaRegion. The image or envFrom can then
//     select any function in the node's store for this interface. So a mapping in mode region does not limit a
//     namespace to one function, even if there is no FpgaRegion.
//   - Nodes in region mode and regiondevel mode advertise the same resource. A pod that requests a name of mode
//     region may run on a node in mode regiondevel, and then gets the device node of the FME.
//   - A pod that requests only resources of another domain is admitted unchanged.
//   - A pod's image can be changed after admission.
//
// # Memory and time
//
// Any pod in the cluster may be able to reach the webhook's port. So the size of a request is known before its body is
// read. The memory of small bodies is limited by the number of connections of [httpd.ServeBodies], and the larger
// bodies have a common limit in bytes. Only a few pods are decoded at a time, and only a few wait for it. The smallest
// pods have their own limits. If there is no room for a request, it is denied. Otherwise a flood of requests would
// switch the webhook off where failurePolicy is Ignore.
//
// # What may block
//
// [Handler.Handle] waits for its turn to decode, then until the cache has been filled, and then for the API server if
// the cache lacks a name. All of this takes at most three seconds, or half a second for a large pod. If too many
// requests are waiting for their turn, it may fail immediately. At most four requests read from the API server at a
// time, and only one per namespace. Ten may do so in a second, and two of each namespace. The other requests are
// answered from the cache. Handle can be called concurrently.
package admission
