// Package checkpoint reads the kubelet's record of which devices containers got: the file kubelet_internal_checkpoint
// next to the device plugins' sockets (pkg/kubelet/cm/devicemanager/checkpoint, unchanged from Kubernetes 1.20 to
// 1.37).
//
// The file contains the Allocate response for each container, which the kubelet reuses when the container restarts. So
// a plugin that has just started can find out which nodes earlier daemons gave out, even under other resource names.
// [Annotate] adds information to the response that the kubelet wouldn't record otherwise: the nodes' names if CDI is
// used, and in any case their numbers, which the container may open until it ends.
//
// The kubelet replaces the file atomically after each allocation and after each list from a device plugin. When it is
// queried for pod resources, it removes the entries of ended pods from its memory (UpdateAllocatedDevices), but not
// before it knows all its pods. So a file written after such an answer contains exactly the containers that the kubelet
// considers alive, including init containers. An older file may contain entries of containers that have ended.
//
// The file's checksum isn't verified: it is a hash over the names and fields of the kubelet's Go types, which differ
// between versions. The kubelet writes a temporary file and renames it, so a file that can be parsed is complete.
//
// A [Reader] belongs to one goroutine.
package checkpoint
