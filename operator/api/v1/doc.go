// Package v1 has the type of the API group deviceplugin.intel.com, version v1: an object that
// installs the device plugin.
//
// The keys are those of Intel's operator, so objects written for it are accepted unchanged. The
// key spec.values, the conditions and the numbers of devices are additions. The name is stricter:
// a valid name of a release of Helm.
//
// The CRD and the DeepCopy methods are written from this package by `make generate-operator`.
//
// +kubebuilder:object:generate=true
// +groupName=deviceplugin.intel.com
package v1
