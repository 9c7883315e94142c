// Package offer determines each device's resource name from the mode, the administrator's rules and the device itself,
// and groups a snapshot's devices by resource.
//
// It is pure: it owns no state, reads no files and never blocks.
package offer
