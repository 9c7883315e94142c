// Package draname has the names of the DRA driver, its devices and its taint in the Kubernetes API. It has no
// state. It is not in the module of the driver, because the commands of the device plugin need it, too: they
// find the holders of devices that belong to claims.
package draname
