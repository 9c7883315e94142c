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
// Package transport of client-go handles credentials, TLS, and the rotation of tokens, certificates and CAs. It costs 1
// MiB of resident memory and 0.9 MB of binary. The package rest, which could also send the requests, costs 3.3 MiB and
// 3.8 MB (measured, v0.37.2).
//
// Nodes and pods are requested as PartialObjectMetadata: some hundred bytes to a few kilobytes
// instead of 50 kilobytes.
//
// Events are of core/v1, because Events of events.k8s.io/v1 are immutable except for a series, and their message cannot
// be updated.
//
// # Rights
//
// Following a node needs the verbs list and watch on nodes, in a ClusterRole. Both requests have the field selector
// metadata.name=NAME, so a rule with resourceNames [NAME] suffices. Writing Events needs create and patch on events.
// The uids of pods need get on pods, but Events are written without them as well. Writing a condition needs patch on
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
// [Client.FollowNode] lists the node, watches it until the watch ends, and begins again, whatever the server answers.
// While the server does not answer, callers keep the last state: the lack of an answer does not mean that the node was
// deleted.
//
// A request may take 30 s, and an answer or an event may have 4 MiB. A watch is requested for 5 to 10 minutes, and is
// closed 30 s after that time. A silent connection is pinged (HTTP/2). The wait before the next attempt is 0.25 to 0.5
// s after the first failure, and grows up to 30 s. If the server asks for a Retry-After of up to a minute, the next
// attempt comes after that time plus a random part of up to half of it, so that the nodes of a cluster do not all
// return at once. For the same reason, a new watch begins after a random time of up to a second. Each kind of failure
// is logged once. Further ones are logged at Debug, until a watch has lasted for 45 s.
//
// After a request that did not reach the server or was answered with 401, the connections are closed. The next request
// then reads token, certificates and CA again, earlier than client-go would by itself.
//
// A request of a [Writer] may take 10 s and is made once. The caller decides whether to try again.
//
// # Goroutines
//
// A [Client] is immutable and safe for concurrent use. Each FollowNode and each Writer has its own connections.
// FollowNode reads in the goroutine of its caller. It calls changed there as well, and does not read until changed
// returns. A Writer belongs to one goroutine, and its methods block for as long as a request takes.
package apiserver
