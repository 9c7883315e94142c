// Package control implements the server and the client for the daemon's local socket, through which the program's
// commands get the daemon's view of the devices, and cordon them. The protocol is HTTP over a Unix socket:
//
//	GET  /state     a [State]
//	GET  /watch     a [State] immediately, then one after each change, each as one line of JSON
//	POST /cordon    device (repeated), by, why, for; returns the new cordons
//	POST /uncordon  device (repeated), by; returns the removed cordons
//	POST /forget    card, by; returns the card, which is no longer missing
//
// Parameters are passed in the query, and requests have no body. Errors are reported with a status of 400 or above and
// a line of text.
//
// # Access
//
// The socket has mode 0600 and, if the daemon creates it, the socket's directory has mode 0700. The kernel reports the
// user behind each connection (SO_PEERCRED), and the daemon only serves root and the user it runs as.
//
// # What may block
//
// [Run] owns nothing but the listener and its connections, whose limits are set by package httpd. Clients never block
// the daemon: a client that doesn't read its response is disconnected after 5 s, and at most 16 clients can watch. The
// functions in [Answers] must be safe for concurrent use.
package control
