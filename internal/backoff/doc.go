// Package backoff paces attempts that fail. It is pure but for the draw: it
// waits for nothing, and a [Backoff] belongs to whoever attempts.
package backoff
