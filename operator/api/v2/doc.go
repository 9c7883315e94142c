// Package v2 contains the types of the API group fpga.intel.com, version v2: objects that define a name in their
// namespace for a function, or for the cards of an interface.
//
// It has the same keys as in Intel's FPGA plugin, so objects written for it are accepted unchanged. The schema differs
// from Intel's in two points: a mode that only begins with af or ends with region is refused, and the status is a
// subresource. Like Intel's schema, it accepts IDs that no card can have. The object's condition Ready is then false.
//
// `make generate-operator` writes the CRDs in deploy/helm/accelerator-operator/files/crds and the
// DeepCopy methods from this package.
//
// +kubebuilder:object:generate=true
// +groupName=fpga.intel.com
package v2
