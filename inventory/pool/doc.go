// Package pool is the family of a pool: a number of units that stand for no
// hardware of their own, named 0 to N-1, as the original plugin's AWS build
// offered them. They have no device node and are always healthy.
//
// The package owns no state, reads nothing and never blocks.
package pool
