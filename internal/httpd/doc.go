// Package httpd serves the probes, the current devices and the metrics over HTTP. It owns its
// listener and its connections. The answers come from the functions in [Answers], which must be
// safe for concurrent use and end with their context. [Keep] serves other listeners within the
// same limits: package control uses it for the daemon's local socket.
//
// A fault of this server must not end the daemon: if an address cannot be listened on, or its listener fails, the error
// is logged once and the server tries again. There are at most 64 connections, each for one request. When all are in
// use, a new connection replaces an old one: of the connections from the address with the most connections, the one
// that has waited longest for its client. Accept may block for about a second while all 64 wait for their answers.
//
// [ServeBodies] is for requests with a body, such as those to a webhook. The operator uses it and
// [Serve].
package httpd
