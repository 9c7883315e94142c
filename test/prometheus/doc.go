// Package prometheus tests a real Prometheus together with the real daemon, a separate process
// on a simulated node. The tests check that the metrics follow the changes of the node, that
// every alert rule loads and the right one fires, and that every query of the dashboard has a
// result.
//
//	make test-prometheus
//
// Two Prometheus servers run side by side, because Prometheus can scrape histograms in two
// ways. One has native histograms and the unchanged alert rules. The other has classic buckets,
// and the rules with all times divided by 60, so that an alert with "for: 5m" fires within five
// seconds.
//
// A [Server] is one Prometheus, a [Daemon] a process of the binary under test. Neither may be
// used after End. PromQL is parsed by Prometheus' own parser.
package prometheus
