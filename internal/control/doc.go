// Package control serves the daemon's local socket, and is its client. By it the commands of the same
// program ask the daemon for its view of the devices, and to cordon devices. It is HTTP over a Unix
// socket:
//
//	GET  /state     a [State]
//	GET  /watch     a [State] at once, then one after each change, a line of JSON each
//	POST /cordon    device (repeated), by, why, for: the cordons that it made
//	POST /uncordon  device (repeated), by: the cordons that it removed
//
// Parameters are in the query; a request has no body. A refusal is a status of 400 or above and a
// line of text.
//
// # Access
//
// The socket has mode 0600, and the directory that the daemon makes for it 0700. The kernel reports
// the user of each connection (SO_PEERCRED): only root and the daemon's own user are served.
//
// # What may block
//
// [Run] owns the listener and its connections, within the limits of package httpd, and no other
// state. Clients never block the daemon: a client that does not read its answer is disconnected after
// 5 s. The functions in [Answers] are called by several connections at once.
package control
