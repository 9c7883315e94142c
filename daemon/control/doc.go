// Package control implements the server and the client for the daemon's local socket. The program's commands use it to
// get the daemon's view of the devices and to cordon devices. The protocol is HTTP over a Unix socket:
//
//	GET  /state     a [State]
//	GET  /watch     a [State] at once, then one after each change, a line of JSON each
//	POST /cordon    device (repeated), by, why, for; returns the new cordons
//	POST /uncordon  device (repeated), by; returns the removed cordons
//	POST /forget    card, by; returns the card, which is no longer missing
//
// Parameters are passed in the query, and requests have no body. An error is a status of 400 or above with a line of
// text.
//
// # Access
//
// The socket has mode 0600, and its directory, if the daemon creates it, 0700. The kernel reports the user of each
// connection (SO_PEERCRED): the daemon serves only root and the user it runs as.
//
// # What may block
//
// [Run] owns the listener and its connections, within package httpd's limits, and no other state. Clients never block
// the daemon: a client that doesn't read its response is disconnected after 5 s, and at most 16 clients can watch.
// Several connections may call the functions in [Answers] at the same time.
package control
