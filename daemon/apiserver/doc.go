// Package apiserver is the only package that connects to the Kubernetes API server.
// It follows the annotations of one Node object, and writes Events and a condition of that Node.
//
//	client, err := apiserver.Open(apiserver.Config{LookupEnv: os.LookupEnv}, log) // reads files, no traffic
//	err = client.FollowNode(ctx, "worker-3", func(n apiserver.Node) { … }, func() { … }) // until ctx ends
//	w := client.Writer(ctx, "worker-3")
//	defer w.Close()
//	err = w.Create(apiserver.Event{…})
//	err = w.Apply("worker-3", apiserver.Condition{…})
//
// # Libraries
//
// Credentials, TLS, and the rotation of tokens, certificates and CAs are those of client-go's
// package transport. It costs 1 MiB of resident memory and 0.9 MB of binary. The package rest, which
// could also send the requests, costs 3.3 MiB and 3.8 MB (measured, v0.37.2).
//
// Nodes and pods are requested as PartialObjectMetadata: some hundred bytes to a few kilobytes
// instead of 50 kilobytes.
//
// Events are of core/v1: those of events.k8s.io/v1 are immutable except for a series, and their
// message cannot be updated.
//
// # Rights
//
// Following a node needs the verbs list and watch on nodes, in a ClusterRole. Both requests have the
// field selector metadata.name=NAME, so a rule with resourceNames [NAME] suffices. Writing Events
// needs create and patch on events. It uses get on pods, but works without it. Writing a condition needs patch on
// nodes/status.
//
//	rules:
//	- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}
//	- {apiGroups: [""], resources: [events], verbs: [create, patch]}
//	- {apiGroups: [""], resources: [pods], verbs: [get]}
//	- {apiGroups: [""], resources: [nodes/status], verbs: [patch]}
//
// # Failures
//
// [Client.FollowNode] lists the node, watches it until the watch ends, and begins again. No
// answer of the server ends it. Callers keep the last state while the server does not answer: that
// does not mean that the node was deleted.
//
// A request has a limit of 30 s, and an answer or an event of 4 MiB. A watch is requested for 5 to 10
// minutes, and is closed 30 s after that time. A silent connection is pinged (HTTP/2). The wait
// before the next attempt is 0.25 to 0.5 s after the first failure, and grows up to 30 s. A
// Retry-After is followed, up to a minute: the next attempt comes after that time and up to half
// of it more, at random, so that the nodes of a cluster do not return at the same time. For the
// same reason a watch that has ended begins again after a random time of up to a second. Failures
// are logged once for each kind, until a watch has lasted for 45 s; later lines are at Debug.
//
// A request that did not reach the server, or was answered 401, closes the connections. The next
// request reads token, certificates and CA again, earlier than client-go does by itself.
//
// A request of a [Writer] has a limit of 10 s and is made once. The caller decides about another
// attempt.
//
// # Goroutines
//
// A [Client] is immutable and safe for concurrent use. Each FollowNode has connections of its own.
// It reads in the goroutine of its caller, which also calls changed; reading waits meanwhile. A
// Writer has connections of its own, too. It belongs to one goroutine, and its methods block for
// as long as a request takes.
package apiserver
