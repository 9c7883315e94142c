// Package apiserver is the only place that talks to the Kubernetes API server.
// It follows the annotations of one Node object, and writes Events.
//
//	client, err := apiserver.Open(apiserver.Config{LookupEnv: os.LookupEnv}, log) // reads files, no traffic
//	err = client.FollowNode(ctx, "worker-3", func(n apiserver.Node) { … }, func() { … }) // until ctx ends
//	w := client.Writer(ctx, "worker-3")
//	defer w.Close()
//	err = w.Create(apiserver.Event{…})
//
// # Libraries
//
// Credentials, TLS, and the rotation of tokens, certificates and CAs are those of client-go's
// package transport. It costs 1 MiB resident and 0.9 MB of binary; the package rest, which
// could also send the requests, costs 3.3 MiB and 3.8 MB (measured, v0.37.2).
//
// Nodes and pods are requested as PartialObjectMetadata: some hundred bytes to a few kilobytes
// instead of 50 kilobytes.
//
// Events are of core/v1: those of events.k8s.io/v1 are immutable but for a series, and have no
// message that can be updated.
//
// # Rights
//
// To follow a node takes the verbs list and watch on nodes, in a ClusterRole. Both requests carry
// the field selector metadata.name=NAME, so that a rule with resourceNames [NAME] is enough. To
// write Events takes create and patch on events, and get on pods, which may be missing.
//
//	rules:
//	- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}
//	- {apiGroups: [""], resources: [events], verbs: [create, patch]}
//	- {apiGroups: [""], resources: [pods], verbs: [get]}
//
// # Trouble
//
// [Client.FollowNode] lists the node, watches it until the watch ends, and begins again. No
// answer of the server ends it. Callers keep the last state while the server is away: a server
// that is away is not a node that was deleted.
//
// A request has 30 s, an answer or an event at most 4 MiB. A watch is asked to end after 5 to 10
// minutes, and is ended 30 s later. A silent connection is pinged (HTTP/2). After a failure the
// next attempt waits 0.25 to 0.5 s at first, and up to 30 s later. A Retry-After is obeyed, up to
// a minute: the next attempt comes after that time and up to half of it more, at random, so that
// the nodes of a cluster do not return all at once. For the same reason a watch that has ended
// begins again after a random time of up to a second. Trouble is logged once for each kind, until
// a watch has lasted for 45 s; later lines are at Debug.
//
// A request that did not reach the server, or was answered 401, closes the connections. The next
// one reads token, certificates and CA again, earlier than client-go does by itself.
//
// A request of a [Writer] has 10 s and is made once. The caller decides about another attempt.
//
// # Ownership
//
// A [Client] is immutable and safe for concurrent use. Each FollowNode has connections of its own.
// It reads in the goroutine of its caller, which also calls changed; nothing is read meanwhile. A
// Writer has connections of its own, too. It belongs to one goroutine, and its methods block for
// as long as a request takes.
package apiserver
