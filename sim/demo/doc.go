// Package demo runs the daemon without a card, a cluster or root. It runs the daemon's own code on a simulated node,
// with a stand-in for the kubelet that speaks the real protocol on real sockets.
//
// It runs a fixed list of steps. Each step changes the simulated node or the kubelet, waits until the stand-in has
// received the expected list, and prints the list and how long it took to arrive. If the list does not arrive in time,
// the demo fails.
//
// [Run] owns a temporary directory, the stand-in and the daemon's goroutine. Before it returns, it removes the
// directory and stops the stand-in and the goroutine.
package demo
