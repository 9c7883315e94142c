// Command accelerator-operator replaces the names of FPGA functions in pods with resources, publishes the status of the
// objects that define these names, and installs device plugins.
//
// This package ties the others together. No other package handles signals or exits the process. The exit codes are 0
// (success), 1 (failure) and 2 (usage).
//
// # State
//
// controller-runtime's manager owns the caches, the webhook server, the lease and the goroutines. Each replica serves
// the webhook with a certificate of its own. Only the replica that holds the lease writes statuses and the CA in the
// webhook configuration.
//
// A replica that loses the lease exits with an error, and the kubelet restarts it. Requests it is handling at that
// moment fail. The other replica goes on admitting pods, and takes over the lease.
//
// # What may block
//
// Startup waits for the API server. A replica is ready (/readyz) once it is serving the webhook, its cache has been
// filled, and it has found its certificate's CA in caBundle at least once.
package main
