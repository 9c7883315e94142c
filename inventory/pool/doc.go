// Package pool is the family of a pool: units without hardware, named 0 to N-1, as the AWS build
// of the original plugin offered them. They have no device node and are always healthy.
//
// The package owns no state, reads nothing and never blocks.
package pool
