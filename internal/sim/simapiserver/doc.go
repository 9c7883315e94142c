// Package simapiserver is a stand-in for the Kubernetes API server, for tests: over HTTPS it lists
// and watches Node objects as PartialObjectMetadata, takes Events, knows the uids of pods, and
// checks tokens. A [Fault] answers in its place.
//
// A [Server] is safe for concurrent use. Each watch runs in the goroutine that net/http gives it;
// Close ends them and waits for them.
package simapiserver
