// Package backoff computes and waits for the delays between repeated attempts. It has no state except in a [Backoff].
package backoff
