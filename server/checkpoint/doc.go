// Package checkpoint reads the kubelet's record of the device nodes that containers
// were given: the file kubelet_internal_checkpoint beside the sockets of device plugins
// (pkg/kubelet/cm/devicemanager/checkpoint, the same from Kubernetes 1.20 to 1.37).
//
// The kubelet writes the file after each allocation and replaces it in one step. It
// keeps the answer of Allocate for each container, and gives it to each restart of that
// container. A plugin that has just started learns there what earlier ones gave out.
// [Annotate] puts into the answer what the answer would not tell else: with CDI the names
// of the nodes, and always their numbers, which the container keeps the right to.
//
// An entry may be that of a container that has ended: the kubelet removes it with the
// next allocation. So the record says what a device that is held was given with, not
// whether it is held.
//
// The package owns no state.
package checkpoint
