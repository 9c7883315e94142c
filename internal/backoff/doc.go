// Package backoff computes the delays between failing attempts, and waits for them. It has no state other than a
// [Backoff]'s.
package backoff
