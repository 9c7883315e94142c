// Package checkpoint reads the kubelet's record of the devices that containers got: the file
// kubelet_internal_checkpoint beside the sockets of device plugins (pkg/kubelet/cm/devicemanager/checkpoint, the same
// from Kubernetes 1.20 to 1.37).
//
// The file contains the answer of Allocate for each container, which the kubelet uses again when the container
// restarts. So a plugin that has just started can read which nodes earlier daemons gave out, even under other names
// of resources. [Annotate] adds to the answer what the kubelet would not record otherwise: with CDI the names of the
// nodes, and always their numbers, which the container may open until it ends.
//
// The kubelet replaces the file in one step after each allocation and after each list of a device plugin. It removes
// the entries of ended pods from its memory when it is asked for pod-resources (UpdateAllocatedDevices), but not
// before it knows all its pods. So a file that was written after such an answer contains exactly the containers that
// the kubelet considers alive, init containers included. An older file may contain entries of containers that have
// ended.
//
// The file's checksum is not compared: it is a hash of the names and fields of the kubelet's Go types, which differ
// between versions. The kubelet writes a temporary file and renames it, so what can be parsed is whole.
//
// A [Reader] belongs to one goroutine.
package checkpoint
