// Package checkpoint reads the file in which the kubelet records each container's devices: kubelet_internal_checkpoint,
// next to the device plugins' sockets (pkg/kubelet/cm/devicemanager/checkpoint, unchanged from Kubernetes 1.20 to
// 1.37).
//
// The file contains the Allocate response for each container, which the kubelet reuses when the container restarts.
// From these responses, a newly started plugin learns which device nodes earlier daemons handed out, even under other
// resource names. [Annotate] adds what the kubelet wouldn't otherwise record: the device nodes' numbers, which
// determine what the container can open for as long as it runs, and, if CDI is used, their names.
//
// The kubelet replaces the file atomically after each allocation and after each device list from a plugin. Once the
// kubelet knows all its pods, a query for pod resources makes it forget the allocations of terminated pods
// (UpdateAllocatedDevices). So a file written after such a query lists exactly the containers that the kubelet
// considers alive, including init containers. An older file may list containers that have exited.
//
// The file's checksum isn't verified, because it covers the names and fields of the kubelet's Go types, which differ
// between versions. The kubelet writes a temporary file and renames it, so a file that can be parsed is complete.
//
// A [Reader] isn't safe for concurrent use.
package checkpoint
