// Package claimstatus shows the devices of prepared claims in status.devices of their ResourceClaims (KEP-4817), so that
// `kubectl get resourceclaim -o yaml` says which card a pod has, and how it is.
//
//	w := claimstatus.New(claimstatus.Config{Client: client, Claims: claims, Devices: inventory, …})
//	go w.Run(ctx)
//
// It is for people who read: nothing depends on it, so Prepare does not wait for it, and a write that fails is tried
// again later. The goroutine of Run owns the state of a Writer. It is blocked while the API server does not answer, for
// 10 s at most.
//
// Each prepared claim costs one write, and each change of its devices another one, but all changes of [interval] are
// written together. After a restart of the driver, each claim costs a read instead. The API server removes the entries
// when the claim is deallocated.
package claimstatus
