// Package dra is the root package of the DRA driver's module. The driver, accelerator-dra-driver, publishes the
// inventory's devices in ResourceSlices and prepares them for pods' claims.
package dra
