// Package fleet finds the pods of the device plugin and of the DRA driver in a cluster, and runs commands of
// accelerator-device-plugin in them. It goes through the API server, and uses the permissions of the user.
//
//	f, err := fleet.New(config, "", "")
//	targets, err := f.Targets(ctx)            // one for each release on each node
//	for _, a := range f.Ask(ctx, targets) {   // an answer or an error from each
//
// # Which pods
//
// [Selector] finds the pods of the charts, of the manifests and of the operator, for both APIs. During an upgrade a
// node has two pods of one release. Only one of them is asked. If two releases have pods on a node, both are asked. A
// driver that only ends the claims of an earlier installation (dra.finishClaims) has no devices of its own, and is not
// asked.
//
// # What a node can do
//
// The answers of nodes are not trusted. An answer is limited in time and size, and [Parse] escapes what could control a
// terminal. If a node fails, its answer is an error, and the other nodes are not affected.
//
// # What may block
//
// A [Fleet] owns no state, and is safe for concurrent use. Its methods block until the API server and the nodes have
// answered. They wait up to Limit for each node, and until ctx ends for the API server.
package fleet
