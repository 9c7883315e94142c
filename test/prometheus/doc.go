// Package prometheus runs a real Prometheus against the real daemon, a process of
// its own on a simulated node, and asks it what an operator would: whether the
// metrics say what happened, whether each alert rule loads and the right one fires,
// whether each query of the dashboard finds something.
//
//	make test-prometheus
//
// Two Prometheus run side by side, because they read histograms in two ways. One
// has native histograms and the alert rules as they are; the other has the classic
// buckets, and the rules at sixty times the speed, so that an alert which waits for
// five minutes fires within five seconds.
//
// A [Server] is one Prometheus, a [Daemon] our binary. Neither may be used after
// its End. Everything that this package says of PromQL is from Prometheus' own
// parser.
package prometheus
