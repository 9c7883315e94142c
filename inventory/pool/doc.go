// Package pool is the family for pools, which consist of units without hardware, named 0 to N-1. The AWS build of the
// original plugin offered such units. They have no device nodes and are always healthy.
//
// The package owns no state, reads nothing and never blocks.
package pool
