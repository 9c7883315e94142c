// Package fleet finds the pods of the device plugin and of the DRA driver in a cluster, and runs commands of
// accelerator-device-plugin in them, through the API server and with the rights of the user.
//
//	f, err := fleet.New(config, "", "")
//	targets, err := f.Targets(ctx)            // one for each release on each node
//	for _, a := range f.Ask(ctx, targets) {   // an answer or an error from each
//
// # Which pods
//
// [Selector] finds the pods of the charts, of the manifests and of the operator, for both APIs. During an upgrade a node has
// two pods of one release, of which one is asked. The pods of two releases on one node are asked both. A driver that only
// ends the claims of an earlier installation (dra.finishClaims) lists no devices of its own, and is not asked.
//
// # What a node can do
//
// Nothing that a node answers is trusted. An answer is limited in time and size, and [Parse] escapes what could control a
// terminal. A node that fails has an error, and does not affect the others.
//
// # What may block
//
// A [Fleet] owns no state, and is safe for concurrent use. Its methods block until the API server and the nodes have
// answered: for at most Limit for each node, and for the API server until ctx ends.
package fleet
