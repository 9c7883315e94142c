// Package dra is the module of the DRA driver, accelerator-dra-driver: it publishes the devices of the
// daemon's inventory in ResourceSlices, and prepares them for the claims of pods.
package dra
