// Package mapping finds the resources that the names in a namespace stand for.
//
// The package is pure: it owns no state and never blocks. The status of an object and the admission of pods use the
// same functions, so pods can use each object that is Ready.
package mapping
