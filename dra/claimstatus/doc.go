// Package claimstatus writes prepared claims' devices to status.devices of their ResourceClaims (KEP-4817), so that
// `kubectl get resourceclaim -o yaml` shows which card a pod has and whether the card is healthy.
//
//	w := claimstatus.New(claimstatus.Config{Client: client, Claims: claims, Devices: inventory, …})
//	go w.Run(ctx)
//
// The status is only for people to read; nothing depends on it. So Prepare doesn't wait for it, and failed writes are
// retried later. Run's goroutine owns the Writer's state. If the API server doesn't respond, a request blocks this
// goroutine for up to 10 s.
//
// Each prepared claim takes one write, and another one whenever its devices change. Changes within [interval] are
// written together. When the driver restarts, it only reads each claim. The API server removes the entries when the
// claim is deallocated.
package claimstatus
