// Package httpd serves the probes, the current devices and the metrics over HTTP. It owns its listener and its
// connections. The responses come from the functions in [Answers], which must be safe for concurrent use and return
// when their context is done. [Keep] serves other listeners within the same limits; package control uses it for the
// daemon's local socket.
//
// A problem with this server must not stop the daemon. If the server can't listen on an address, or its listener fails,
// it logs the error once and tries again. There are at most 64 connections, each for a single request. When all of them
// are in use, a new connection replaces an old one: the address with the most connections loses the connection that has
// been waiting longest for its client. If all 64 are waiting for their responses, Accept may block for about a second.
//
// [ServeBodies] is for requests with a body, such as a webhook's. The operator uses both ServeBodies and [Serve].
package httpd
