// Package checkpoint reads the file in which the kubelet records the devices of each container:
// kubelet_internal_checkpoint, next to the device plugins' sockets (pkg/kubelet/cm/devicemanager/checkpoint, unchanged
// from Kubernetes 1.20 to 1.37).
//
// The file contains the Allocate response for each container, which the kubelet reuses when the container restarts.
// This lets a plugin that has just started find out which device nodes earlier daemons handed out, even under other
// resource names. [Annotate] adds what the kubelet wouldn't record otherwise: the numbers of the device nodes, which
// the container may open until it ends, and their names if CDI is used.
//
// The kubelet replaces the file atomically after each allocation and after each list from a device plugin. A query for
// pod resources makes the kubelet forget the allocations of ended pods (UpdateAllocatedDevices), once it knows all its
// pods. So a file written after such a query lists exactly the containers that the kubelet considers alive, including
// init containers. An older file may list containers that have ended.
//
// The file's checksum isn't verified, because it covers the names and fields of the kubelet's Go types, which differ
// between versions. The kubelet writes a temporary file and renames it, so a file that can be parsed is complete.
//
// A [Reader] must not be used by several goroutines at once.
package checkpoint
