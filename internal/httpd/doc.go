// Package httpd answers the probes and shows the live snapshot and the metrics over
// HTTP. It owns its listener and nothing else; what it says comes from the functions
// in [Answers], which must be safe for concurrent use and bounded by their context.
//
// It is never in the way of the daemon's main job: an address that cannot be
// listened on is said once and tried again, and so is one whose listener fails.
package httpd
