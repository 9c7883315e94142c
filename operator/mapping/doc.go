// Package mapping finds the resources that the names of a namespace stand for.
//
// It is pure: it owns no state and never blocks. The status of an object and the admission of
// pods come from the same functions, so pods can use each object that is Ready.
package mapping
