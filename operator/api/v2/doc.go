// Package v2 has the types of the API group fpga.intel.com, version v2: objects that give a
// function, or the cards of an interface, a name in their namespace.
//
// The keys are those of Intel's FPGA plugin, so objects written for it are accepted unchanged.
// Two things are stricter: mode is af or region and nothing that only begins or ends so, and the
// status is a subresource. An id that can be none of a card is accepted, as Intel's schema
// accepts it, and the object's condition Ready is then false.
//
// The CRDs in deploy/helm/accelerator-operator/files/crds and the DeepCopy methods are written from this package by
// `make generate-operator`.
//
// +kubebuilder:object:generate=true
// +groupName=fpga.intel.com
package v2
