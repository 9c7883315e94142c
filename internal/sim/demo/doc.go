// Package demo shows the daemon at work without card, cluster or root: the
// daemon's own code on a simulated node, and a stand-in for the kubelet that
// speaks the real protocol over real sockets.
//
// It plays a fixed list of steps. Each changes the simulated node (or the
// kubelet), waits until the kubelet was told what it must be told, and prints
// what that was and how long it took. A step that is not seen in time fails the
// demo.
//
// [Run] owns a temporary directory, the stand-in and the goroutine of the
// daemon; all are gone when it returns.
package demo
