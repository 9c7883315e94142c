// Package metrics defines the metrics of the daemon for Prometheus. Every metric is declared here, once, with its name,
// labels and help ([New]); the table of docs/metrics.md is generated from their descriptors. No other package imports
// Prometheus' library.
//
// # State
//
// A [Metrics] lives as long as the process and has a registry of its own; no metric is registered at init. The packages
// watcher, inventory, server and main count events: they call one method where they log. States (devices, health,
// streams) are not counted. They are read from the functions of [State] when Prometheus scrapes, so they are always
// current, and a device that is gone has no series.
//
// All methods are safe for concurrent use and none blocks. The methods for a uevent that
// concerns no card do not allocate.
//
// # Labels
//
// Each label has few values. The number of values from other sources, such as subsystems and reasons, is bounded:
// further values become "other". Only current resources and devices have series: the series of a retired resource are
// deleted.
package metrics
