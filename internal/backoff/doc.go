// Package backoff computes the waits between attempts that fail, and waits. It has no state except a [Backoff].
package backoff
