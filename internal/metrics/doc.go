// Package metrics defines the daemon's Prometheus metrics. Every metric is declared here, once, with its name, labels
// and help ([New]). The table in docs/metrics.md is generated from their descriptors. No other package imports the
// Prometheus library.
//
// # State
//
// A [Metrics] lives as long as the process and has its own registry; no metric is registered at init. The packages
// watcher, inventory, server and main count events by calling a method wherever they log. States (devices, health,
// streams) aren't counted. They are read from the functions in [State] when Prometheus scrapes, so they are always
// current, and a device that is gone has no series.
//
// All methods are safe for concurrent use, and none of them blocks. The methods for uevents that don't concern a card
// don't allocate.
//
// # Labels
//
// Each label has few values. The number of values from other sources, such as subsystems and reasons, is bounded:
// additional values become "other". Only current resources and devices have series: when a resource is retired, its
// series are deleted.
package metrics
