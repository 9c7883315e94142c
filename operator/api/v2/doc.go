// Package v2 has the types of the API group fpga.intel.com, version v2: objects that give a
// function, or the cards of an interface, a name in their namespace.
//
// The keys are those of Intel's FPGA plugin, so objects written for it are accepted unchanged.
// Two things are stricter than in Intel's schema: a mode that only begins with af or ends with
// region is refused, and the status is a subresource. An id that no card can have is accepted, as
// by Intel's schema; the object's condition Ready is then false.
//
// `make generate-operator` writes the CRDs in deploy/helm/accelerator-operator/files/crds and the
// DeepCopy methods from this package.
//
// +kubebuilder:object:generate=true
// +groupName=fpga.intel.com
package v2
