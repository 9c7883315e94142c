// Package demo shows the daemon at work without card, cluster or root: the
// daemon's own code on a simulated node, and a stand-in for the kubelet that
// speaks the real protocol over real sockets.
//
// It runs a fixed list of steps. Each step changes the simulated node or the
// kubelet, waits until the stand-in has received the expected list, and prints
// the list and how long it took. If the list does not arrive in time, the demo
// fails.
//
// [Run] owns a temporary directory, the stand-in and the goroutine of the
// daemon. It removes and ends all of them before it returns.
package demo
