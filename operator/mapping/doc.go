// Package mapping determines the resources that the names in a namespace stand for.
//
// The package is pure: it owns no state and never blocks. An object's status and the admission of pods are based on the
// same functions, so pods can use every object that is Ready.
package mapping
