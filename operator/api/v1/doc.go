// Package v1 contains the type of the API group deviceplugin.intel.com, version v1: FpgaDevicePlugin, which installs
// the device plugin.
//
// The type has the same keys as in Intel's operator, so objects written for that operator are accepted unchanged. We
// have added spec.values, the conditions and the numbers of devices. An object's name must be a valid Helm release
// name.
//
// `make generate-operator` generates the CRD and the DeepCopy methods from this package. The comments on fields are
// shown by `kubectl explain`.
//
// +kubebuilder:object:generate=true
// +groupName=deviceplugin.intel.com
package v1
