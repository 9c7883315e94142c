// Package simapiserver is a stand-in for the Kubernetes API server, for tests: over HTTPS it lists
// and watches Node objects as PartialObjectMetadata, creates Events, returns the uids of pods, patches the
// conditions of nodes, and checks tokens. A [Fault] can answer instead.
//
// A [Server] is safe for concurrent use. Each watch runs in its goroutine of net/http.
// Close ends the watches and waits for them.
package simapiserver
