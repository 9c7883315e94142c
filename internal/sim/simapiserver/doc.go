// Package simapiserver is a stand-in for the Kubernetes API server, for tests: it
// lists and watches Node objects, takes Events, knows the uids of pods, all over
// real HTTPS, checks tokens, and misbehaves on demand. It keeps to what kube-apiserver does: resourceVersions, bookmarks,
// the event ERROR with code 410 when history is gone, timeoutSeconds, chunked
// watches, PartialObjectMetadata when it is asked for.
//
// A [Server] is safe for concurrent use. Each watch has the goroutine that
// net/http gives it; Close ends them and awaits them.
package simapiserver
