// Package pulse finds goroutines that hang. Each marks when it begins to work and when it waits
// again; others ask whether it has worked for too long. A goroutine that waits is healthy,
// however long it waits. The package owns no state but that of a [Pulse].
package pulse
