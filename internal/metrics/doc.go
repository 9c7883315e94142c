// Package metrics defines the daemon's Prometheus metrics. [New] declares every metric, with its name, labels and help.
// The table in docs/metrics.md is generated from the descriptors. No other package imports the Prometheus library.
//
// # State
//
// A [Metrics] lives as long as the process and has its own registry. Nothing is registered at init. The packages
// watcher, inventory, server and main call a method to count an event wherever they log it. The current state (devices,
// health, streams) comes from the functions in [State], which are called at each scrape. So it is never stale, and a
// device that is gone has no series.
//
// All methods are safe for concurrent use, and none of them blocks. [Metrics.UEventIgnored] doesn't allocate, because
// uevents that don't concern a card are frequent.
//
// # Labels
//
// Each label has few values. The number of values that come from outside, such as subsystems and reasons, is limited:
// any further value becomes "other". Only current resources and devices have series. When a resource is retired, its
// series are deleted.
package metrics
