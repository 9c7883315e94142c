// Package demo demonstrates the daemon without a card, a cluster or root privileges. It runs the daemon's code on a
// simulated node, with a stand-in for the kubelet that speaks the real protocol on real sockets.
//
// The demo is a fixed list of steps. Each step changes the simulated node or the kubelet, waits until the stand-in has
// received the expected list, and prints the list and how long it took to arrive. If the list doesn't arrive in time,
// the demo fails.
//
// [Run] owns a temporary directory, the stand-in and the daemon's goroutine. Before it returns, it stops the stand-in
// and the goroutine, and removes the directory.
package demo
