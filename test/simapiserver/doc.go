// Package simapiserver is a stand-in for the Kubernetes API server for tests. Over HTTPS, it lists and watches Node
// objects as PartialObjectMetadata, creates Events, returns pods' UIDs, patches nodes' conditions, and checks tokens. A
// [Fault] can respond to a request in the server's place.
//
// A [Server] is safe for concurrent use. Each watch runs in one of net/http's goroutines. Close ends all watches and
// waits for them.
package simapiserver
