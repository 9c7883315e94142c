// Package offer names the resource of each device, by the mode, the administrator's rules and the
// device itself, and sorts the devices of a snapshot into resources.
//
// It is pure: it owns no state, reads no files and never blocks.
package offer
