// Command accelerator-operator replaces the names of FPGA functions in pods with resources, publishes the status of the
// objects that define the names, and installs device plugins.
//
// This package connects the other packages. It alone handles signals and exits the process. The exit codes are 0
// (success), 1 (failure) and 2 (usage).
//
// # State
//
// controller-runtime's manager owns the caches, the webhook server, the lease and the goroutines. Each replica serves
// the webhook with its own certificate. Only the replica that holds the lease writes statuses and the webhook
// configuration's CA.
//
// A replica that loses the lease exits with an error, and the kubelet restarts it. Requests that it is handling at that
// moment fail. The other replica continues to admit pods, and takes the lease.
//
// # What may block
//
// Startup waits for the API server. A replica is ready (/readyz) once it is serving the webhook, its cache has been
// filled, and it has found the CA of its certificate in caBundle at least once.
package main
