// Package httpd answers the probes and shows the live snapshot and the metrics over
// HTTP. It owns its listener and its connections; the answers come from the functions
// in [Answers], which must be safe for concurrent use and bounded by their context.
//
// It is never in the way of the daemon's main job: an address that cannot be
// listened on is logged once and tried again, and so is one whose listener fails.
// There are at most 64 connections, each for one request, and while there are that
// many, new ones replace those that wait for their client. Accepting may block for
// about a second while all 64 wait for their answers.
package httpd
