// Package backoff paces attempts that fail. It does not wait itself, and has no state but that
// of a [Backoff].
package backoff
