// Package backoff computes the waits between attempts that fail. It does not wait itself, and has no
// state except that of a [Backoff].
package backoff
