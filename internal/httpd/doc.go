// Package httpd serves the probes, the current devices and the metrics over HTTP. It owns its listener and its
// connections. The responses come from the functions in [Answers], which must be safe for concurrent use and return
// when their context is done. [Keep] serves other listeners within the same limits: package control uses it for the
// daemon's local socket.
//
// A problem with this server must not stop the daemon. If listening on an address fails, or its listener fails, the
// error is logged once and the server tries again. There are at most 64 connections, each for a single request. When
// all of them are in use, a new connection replaces an old one: among the connections from the address that has the
// most, the one that has been waiting for its client the longest. Accept may block for about a second while all 64 are
// waiting for their responses.
//
// [ServeBodies] is for requests with a body, such as those to a webhook. The operator uses both it and [Serve].
package httpd
