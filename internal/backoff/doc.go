// Package backoff computes the delays between repeated attempts, and waits for them. Its only state is in a [Backoff].
package backoff
