// Package metrics defines the daemon's Prometheus metrics. [New] declares every metric, with its name, labels and help.
// The table in docs/metrics.md is generated from the metrics' descriptors. No other package imports the Prometheus
// library.
//
// # State
//
// A [Metrics] lives for as long as the process and has its own registry. Nothing is registered at init. Wherever the
// packages watcher, inventory, server and main log an event, they call a method to count it. The current state
// (devices, health, streams) comes from the functions in [State], which are called at each scrape, so it is never stale
// and devices that are gone have no series.
//
// All methods are safe for concurrent use, and none of them blocks. [Metrics.UEventIgnored] doesn't allocate, because
// uevents that don't concern a card are frequent.
//
// # Labels
//
// Each label has few values. If the values come from outside, like subsystems and reasons, their number is limited, and
// any further values become "other". Only current resources and devices have series. When a resource is retired, its
// series are deleted.
package metrics
