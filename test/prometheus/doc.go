// Package prometheus tests a real Prometheus together with the real daemon, which runs as a separate process on a
// simulated node. The tests check that the metrics follow the changes of the node, that every alert rule loads and the
// right one fires, and that every query of the dashboard has a result.
//
//	make test-prometheus
//
// Two Prometheus servers run side by side, because Prometheus can scrape histograms in two ways. One uses native
// histograms and the unchanged alert rules. The other one uses classic buckets, and rules with all times divided by 60,
// so that an alert with "for: 5m" fires within five seconds.
//
// A [Server] is one Prometheus, and a [Daemon] is a process of the binary under test. Neither can be used after End.
// Prometheus' own parser parses PromQL.
package prometheus
