// Package simapiserver is a stand-in for the Kubernetes API server, for tests. Over HTTPS, it lists and watches Node
// objects as PartialObjectMetadata, creates Events, returns the uids of pods, patches the conditions of nodes, and
// checks tokens. A [Fault] can take over the answer to a request.
//
// A [Server] is safe for concurrent use. Each watch runs in a net/http goroutine. Close ends all watches and waits for
// them.
package simapiserver
