// Package fleet finds a cluster's device plugin and DRA driver pods, and runs accelerator-device-plugin's commands in
// them. It goes through the API server with the user's permissions.
//
//	f, err := fleet.New(config, "", "")
//	targets, err := f.Targets(ctx)            // one for each release on each node
//	for _, a := range f.Ask(ctx, targets) {   // an answer or an error from each
//
// # Which pods
//
// [Selector] finds the pods that were installed by the charts, the manifests and the operator, for the device plugin
// API and for DRA. If a node has two pods of the same release, as it does during an upgrade, only one of them is
// queried. If it has pods of two releases, both releases are queried. A driver that only finishes an earlier
// installation's claims (dra.finishClaims) doesn't have any devices, so it isn't queried.
//
// # What a node can do
//
// Nodes' answers aren't trusted. Their size and the time they take are limited, and [Parse] escapes anything that could
// control a terminal. If a node fails, its answer is an error, and the other nodes aren't affected.
//
// # What may block
//
// A [Fleet] owns no state, and is safe for concurrent use. Its methods block until the API server and the nodes have
// answered. They wait up to Limit for each node. For the API server, they wait until ctx is done.
package fleet
