// Package apiserver is the only package that connects to the Kubernetes API server. It follows a Node object's
// annotations, and writes Events and a condition for that Node.
//
//	client, err := apiserver.Open(apiserver.Config{LookupEnv: os.LookupEnv}, log) // reads files, no traffic
//	err = client.FollowNode(ctx, "worker-3", func(n apiserver.Node) { … }, func() { … }) // until ctx is done
//	w := client.Writer(ctx, "worker-3")
//	defer w.Close()
//	err = w.Create(apiserver.Event{…})
//	err = w.Apply("worker-3", apiserver.Condition{…})
//
// # Libraries
//
// client-go's transport package handles credentials, TLS, and the rotation of tokens, certificates and CAs. It costs 1
// MiB of resident memory and 0.9 MB in the binary. The rest package, which could also send the requests, would cost 3.3
// MiB and 3.8 MB (measured with v0.37.2).
//
// Nodes and pods are requested as PartialObjectMetadata, which is a few hundred bytes to a few kilobytes in size
// instead of 50 kilobytes.
//
// Events are core/v1 Events. An events.k8s.io/v1 Event is immutable except for its series, so its message can't be
// updated.
//
// # Permissions
//
// Following a node requires list and watch on nodes, in a ClusterRole. Both requests use the field selector
// metadata.name=NAME, so a rule with resourceNames [NAME] is enough. Writing Events requires create and patch on
// events. Looking up pod UIDs requires get on pods, but Events can also be written without UIDs. Writing a condition
// requires patch on nodes/status.
//
//	rules:
//	- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}
//	- {apiGroups: [""], resources: [events], verbs: [create, patch]}
//	- {apiGroups: [""], resources: [pods], verbs: [get]}
//	- {apiGroups: [""], resources: [nodes/status], verbs: [patch]}
//
// # Failures
//
// [Client.FollowNode] lists the node, watches it until the watch ends, and starts over, no matter how the server
// responds. While the server doesn't respond, callers keep the last known state, because a missing response doesn't
// mean that the node was deleted.
//
// A request may take up to 30 s, and a response or an event can be up to 4 MiB in size. A watch is requested for 5 to
// 10 minutes, and is closed if it is still open 30 s after that. Silent connections are pinged (HTTP/2). After the
// first failure, the next attempt is made after 0.25 to 0.5 s; the delay grows to up to 30 s. If the server sends a
// Retry-After of up to a minute, the next attempt is made after that time plus a random delay of up to half as long, so
// that a cluster's nodes don't all come back at once. For the same reason, a new watch begins after a random delay of
// up to a second. Each kind of failure is logged once; further failures are logged at Debug until a watch has lasted
// for 45 s.
//
// If a request doesn't reach the server or gets a 401, the connections are closed. The next request then rereads the
// token, certificates and CA, sooner than client-go would by itself.
//
// A [Writer]'s requests may take up to 10 s and aren't retried. Whether to try again is up to the caller.
//
// # Goroutines
//
// A [Client] is immutable and safe for concurrent use. Each FollowNode call and each Writer has its own connections.
// FollowNode reads in its caller's goroutine and also calls changed there, so it doesn't read any further until changed
// returns. A Writer belongs to one goroutine, and its methods block for as long as a request takes.
package apiserver
