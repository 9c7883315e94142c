// Package certificate makes the serving certificates of a webhook, and has API servers trust
// them.
//
// # Who owns what
//
// The CA is in a Secret, which belongs to cert-manager's library: each replica runs its
// authority. The first one makes the Secret, and any one makes a new CA when two thirds of a
// year are over, and when the Secret was deleted or does not have a CA with its key. Whatever
// other certificate is in the Secret is overwritten, so its name must not be that of a Secret
// with another use. Other keys of the Secret stay.
//
// Each replica has a [Source], which signs a certificate of its own, for a week and in memory. So
// nothing waits for a file that the kubelet writes. The leader has an [Injector], which writes the
// CA to the webhooks' configuration.
//
// # Change of the CA
//
// Replicas, injector and API servers learn of a new CA at different times. Two overlaps keep them
// together, in whichever order that is:
//
//   - A replica serves the certificate before for a minute, [leafOverlap]. By then API servers
//     trust the new CA.
//   - API servers trust the CAs before for ten minutes, [caOverlap]. By then no replica serves a
//     certificate of theirs.
//
// While no replica is leader, nothing is injected. That takes seconds, unless all replicas have
// ended. Where a new CA comes and no leader within a minute, the webhook fails until there is one.
//
// # What may block
//
// Nothing but [Source.Start] and [Injector.Reconcile], which wait for the API server.
package certificate
