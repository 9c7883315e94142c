// Package offer decides what a device is offered as: which resource it belongs
// to, by the mode, by the operator's rules and by what the device is. It sorts the
// devices of a snapshot into resources.
//
// It is pure: it owns no state, reads nothing and never blocks. A new mode is
// one line in the table of modes.
package offer
