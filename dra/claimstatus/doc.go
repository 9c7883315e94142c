// Package claimstatus shows the devices of prepared claims in status.devices of their ResourceClaims (KEP-4817), so
// that `kubectl get resourceclaim -o yaml` shows which card a pod has, and whether the card is healthy.
//
//	w := claimstatus.New(claimstatus.Config{Client: client, Claims: claims, Devices: inventory, …})
//	go w.Run(ctx)
//
// The status is only for people to read. Nothing depends on it, so Prepare does not wait for it, and a failed write is
// retried later. The goroutine of Run owns the state of a Writer. While the API server isn't responding, a request
// blocks this goroutine for up to 10 s.
//
// Each prepared claim costs one write, and each change of its devices another one. All changes within [interval] are
// written together. After a restart of the driver, each claim costs a read instead. The API server removes the entries
// when the claim is deallocated.
package claimstatus
