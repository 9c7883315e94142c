// Package pulse finds goroutines that are stuck: each says when it begins to work
// and when it waits again, and others ask whether it has worked for too long. One
// that waits is healthy however long it waits. It owns no state but that of a
// [Pulse].
package pulse
