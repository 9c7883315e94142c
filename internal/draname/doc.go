// Package draname has the names that the DRA driver shares with the Kubernetes API: those of the driver,
// of its devices, and of the taint. It has no state. It is not in the module of the driver, because the
// commands of the device plugin also find the holders of claims.
package draname
