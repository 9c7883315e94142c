// Package apiserver is the only place that talks to the Kubernetes API server.
// What it can do today is follow one Node object's annotations, and write Events.
//
//	client, err := apiserver.Open(apiserver.Config{LookupEnv: os.LookupEnv}, log) // reads files, no traffic
//	err = client.FollowNode(ctx, "worker-3", func(n apiserver.Node) { … }, func() { … }) // until ctx ends
//	w := client.Writer(ctx, "worker-3")
//	err = w.Create(apiserver.Event{…})
//
// # How
//
// It is net/http and the few types that are needed. client-go's REST client is
// not linked: unused it keeps 4 MiB resident, its transport package alone
// 1 MiB, of the 20 that the daemon may have (measured, v0.37.2).
//
// The object is asked for as PartialObjectMetadata, so that a server that knows
// it (all since 1.15) sends some hundred bytes to a few kilobytes and not the
// status of 50. Of other servers' Nodes the rest is skipped, not decoded.
//
// Token, certificate and CA files are read again for each request. There is one
// every few minutes, or for Events every few seconds, so that costs nothing, and
// rotation needs neither a clock nor a cache.
//
// Events are of core/v1: those of events.k8s.io/v1 are immutable but for a series,
// and have no message that could follow what happens. A pod is asked for as
// PartialObjectMetadata, too; of the answers to what is written nothing is decoded.
//
// # What the account needs
//
// To follow: the verbs list and watch on nodes, in a ClusterRole: no get, and no
// other resource. Both requests carry the field selector metadata.name=NAME, so
// that a rule with resourceNames [NAME] is enough, where somebody makes one for
// each node. To write: create and patch on events, and get on pods, which may be
// missing.
//
//	rules:
//	- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}
//	- {apiGroups: [""], resources: [events], verbs: [create, patch]}
//	- {apiGroups: [""], resources: [pods], verbs: [get]}
//
// # Trouble
//
// Nothing that the server does ends [Client.FollowNode] or makes it say what the
// server did not. A request has 30 s, an event that has begun has 30 s, an answer
// or event has at most 4 MiB; a watch is asked to end after 5 to 10 minutes and
// is given up soon after; a connection that is silent is pinged (HTTP/2). What
// is over begins again: a watch at the last resourceVersion, after 410 and after
// trouble from the list. Attempts that fail are paced. A Retry-After is
// obeyed, up to a minute: the next attempt comes after that time and up to half of it
// more, at random, so that the nodes of a cluster do not ask again all at once. For the same
// reason a watch that has ended begins again after a random time of up to a second.
// Trouble is logged once for each kind, until a watch has lasted for 45 s; later lines
// are at Debug. Until then callers keep the last state that they were given: a server
// that is gone is not a node that is gone.
//
// A request of a [Writer] has 10 s and is made once. Whether it is made again, and
// what is kept meanwhile, is the caller's; the Writer knows how long to wait.
//
// # Who owns what, what may block
//
// A [Client] is immutable and safe for concurrent use. Each FollowNode has
// connections and one reading goroutine of its own, which end with it. It calls
// changed from the goroutine that called it, never twice at a time; while
// changed runs, nothing is read. A Writer has connections of its own, too, and is
// one goroutine's, which it holds up for as long as a request has.
package apiserver
