// Package pool is the family for pools: units without any hardware, named 0 to N-1, like the ones that the AWS build of
// the original plugin offered. They have no device nodes and are always healthy.
//
// The package owns no state, reads nothing and never blocks.
package pool
