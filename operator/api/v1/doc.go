// Package v1 contains the type of the API group deviceplugin.intel.com, version v1: FpgaDevicePlugin, which installs
// the device plugin.
//
// It has the same keys as in Intel's operator, so objects that were written for it are accepted unchanged. The key
// spec.values, the conditions and the numbers of devices are our additions. The name of an object must be a valid name
// of a Helm release.
//
// `make generate-operator` writes the CRD and the DeepCopy methods from this package. The comments
// of the fields are the text of `kubectl explain`.
//
// +kubebuilder:object:generate=true
// +groupName=deviceplugin.intel.com
package v1
