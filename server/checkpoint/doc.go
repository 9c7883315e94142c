// Package checkpoint reads the kubelet's record of the device nodes that containers
// got: the file kubelet_internal_checkpoint beside the sockets of device plugins
// (pkg/kubelet/cm/devicemanager/checkpoint, the same from Kubernetes 1.20 to 1.37).
//
// The kubelet writes the file after each allocation and replaces it in one step. The file
// has the answer of Allocate for each container, which the kubelet uses again when the
// container restarts. So a plugin that has just started can read which nodes earlier daemons
// gave out. [Annotate] adds to the answer the properties of the nodes that the
// kubelet would not record otherwise: with CDI their names, and always their numbers,
// which the container may open until it ends.
//
// An entry may belong to a container that has ended: the kubelet removes it at the next
// allocation. So the record has the nodes of a held device, but does not show whether a
// device is held.
//
// The package owns no state.
package checkpoint
