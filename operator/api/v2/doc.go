// Package v2 contains the types of the API group fpga.intel.com, version v2. Each object defines a name for a function,
// or for the cards that have an interface, in the object's namespace.
//
// The types have the same keys as in Intel's FPGA plugin, so objects written for that plugin are accepted unchanged.
// The schema differs from Intel's in two ways: the mode must be exactly af or region (Intel's schema accepts any mode
// that begins with af or ends with region), and the status is a subresource. Like Intel's, the schema accepts IDs that
// no card can have, but such an object's Ready condition is false.
//
// `make generate-operator` generates the CRDs in deploy/helm/accelerator-operator/files/crds and the DeepCopy methods
// from this package.
//
// +kubebuilder:object:generate=true
// +groupName=fpga.intel.com
package v2
