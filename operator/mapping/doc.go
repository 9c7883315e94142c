// Package mapping determines which resources the names in a namespace stand for.
//
// The package is pure: it owns no state and never blocks. Objects' statuses and pod admission use the same functions,
// so pods can use every object that is Ready.
package mapping
