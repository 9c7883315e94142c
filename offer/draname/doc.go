// Package draname defines the names of the DRA driver, its devices and its taint in the Kubernetes API. It isn't part
// of the driver's module, because the device plugin also needs it to find the holders of devices that belong to claims.
// It has no state.
package draname
