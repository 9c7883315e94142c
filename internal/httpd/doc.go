// Package httpd answers the probes and shows the live snapshot and the metrics over
// HTTP. It owns its listener and its connections; the answers come from the functions
// in [Answers], which must be safe for concurrent use and bounded by their context.
// [Keep] serves other listeners within the same limits: package control uses it for the
// daemon's local socket.
//
// It never hinders the daemon's main job: an address that cannot be listened on is logged
// once and tried again, and so is one whose listener fails. There are at most 64
// connections, each for one request. While there are 64, a new one replaces the one that
// has waited longest for its client. Accept may block for about a second while all 64 wait
// for their answers.
package httpd
