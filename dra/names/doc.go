// Package names has the names that the driver shares with the Kubernetes API: those of the driver, of
// its devices, and of the taint. It has no state.
package names
