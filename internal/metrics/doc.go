// Package metrics is what the daemon tells Prometheus. Every metric is declared
// here, once: its name, labels and help ([Declarations]), from which the table of
// docs/metrics.md is made. It is the only package that knows Prometheus.
//
// # Who owns what
//
// A [Metrics] lives as long as the process and has a registry of its own; nothing
// registers itself at init. What happens is counted by those to whom it happens:
// watcher, inventory, server and command call one typed method where they log.
// What is (devices, health, streams) is nobody's counter: it is read at the time of
// a scrape from the functions of [State], and so it cannot drift away from the
// truth, and what is gone has no series.
//
// A nil *Metrics counts nothing. All methods may be called by anyone at any time;
// none blocks, and those on the path of an uevent that does not concern us allocate
// nothing.
//
// # Labels
//
// Each label has few values. Those that others make up (subsystems, reasons) are
// counted: beyond a bound they are "other". Names of resources and devices are
// bounded by what is there: a resource that is retired takes its series along.
package metrics
