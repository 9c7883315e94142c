// Package backoff computes the waits between attempts that fail, and waits. It has no state except that of a [Backoff].
package backoff
