// Package prometheus tests a real Prometheus together with the real daemon, which runs as a separate process on a
// simulated node. The tests check that the metrics reflect changes to the node, that every alert rule loads, that the
// right rules fire, and that every query in the dashboard has a result.
//
//	make test-prometheus
//
// Two Prometheus servers run side by side, because Prometheus has two ways of scraping histograms. One uses native
// histograms and the unchanged alert rules. The other uses classic buckets, and rules with all times divided by 60, so
// that an alert with "for: 5m" fires within five seconds.
//
// A [Server] is a running Prometheus, and a [Daemon] is a running process of the binary that is being tested. Neither
// can be used after End. PromQL is parsed with Prometheus' own parser.
package prometheus
