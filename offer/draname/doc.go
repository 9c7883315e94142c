// Package draname defines the names that the Kubernetes API uses for the DRA driver, its devices and its taint. The
// package isn't part of the driver's module, because the device plugin also needs it, to find the containers that hold
// devices through claims. It has no state.
package draname
