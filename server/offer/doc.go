// Package offer decides which resource offers which device: it turns the
// devices of a snapshot into the resources that the kubelet is told of, each
// with its units.
//
// It is pure: it owns no state, reads nothing and never blocks. A new mode is
// one constant, one line in [Modes] and one case in [Policy.ResourceOf] and
// [Policy.unit].
package offer
