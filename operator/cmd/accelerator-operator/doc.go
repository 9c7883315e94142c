// Command accelerator-operator admits pods that ask for FPGA functions by name, publishes the
// status of the objects that give the names, and installs device plugins.
//
// This package only wires, and only it handles signals and exits: 0 success, 1 failure, 2 usage.
//
// # Who owns what
//
// controller-runtime's manager owns the cache of mappings, the webhook server, the lease and the
// goroutines. Each replica admits pods. Only the replica that holds the lease writes statuses; a
// replica that loses the lease ends, and is started again by its kubelet.
//
// # What may block
//
// The start waits for the API server. A replica is ready (/readyz) when it serves the webhook
// and its cache has been filled.
package main
