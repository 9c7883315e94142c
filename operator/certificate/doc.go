// Package certificate makes the serving certificates of a webhook, and writes their CA to the
// webhook's configuration.
//
// # State
//
// The CA is in a Secret. The authority of cert-manager's library, which each replica runs, makes
// the Secret if it is missing. It makes a new CA after two thirds of a year, and if the Secret does
// not have a CA with its key. It overwrites any other certificate in the Secret, so no other
// program may use the Secret. Other keys of the Secret stay.
//
// Each replica has a [Source], which signs a certificate for a week and keeps it in memory, so that
// no replica waits for the kubelet to mount a file. The leader has an [Injector], which writes the CA
// to the webhooks' configuration.
//
// # Change of the CA
//
// Replicas, injector and API servers receive a new CA at different times, in any order. Two
// overlaps prevent failed handshakes:
//
//   - A replica serves its previous certificate for a minute, [leafOverlap]. By then API servers
//     trust the new CA.
//   - API servers trust the previous CAs for ten minutes, [caOverlap]. By then no replica serves a
//     certificate that one of them has signed.
//
// The CA is injected only while there is a leader. A change of the leader takes seconds. If there
// is no leader for a minute after a new CA, the webhook fails until there is one.
//
// # What may block
//
// [Source.Start] and [Injector.Reconcile] wait for the API server. No other function blocks.
package certificate
