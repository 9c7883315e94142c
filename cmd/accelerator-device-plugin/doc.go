// Command accelerator-device-plugin offers the FPGA cards of a node to the kubelet, and
// updates the offer when cards are plugged, pulled, reprogrammed or fail.
//
// This package only wires: it reads the configuration, joins watcher, inventory
// and server, and turns errors into exit codes (0 success, 1 failure, 2 usage). Only this
// package reads the environment, handles signals and exits.
//
// # Who owns what
//
// There is one watcher, inventory, server and HTTP server for the life of the daemon.
//
//   - The goroutine of service.serve owns the newest settings and the mode. SIGHUP and the
//     node's annotation change them. It makes a policy of them and hands that to the
//     inventory; the inventory and the server keep running.
//   - The task that follows the node's annotation owns the modeSelector. It hands over the
//     newest mode through a channel of size one.
//   - ownership has the names of our resources, also those of earlier rules.
//     server.Allocations has the devices that the kubelet may not show as held yet. Both are
//     shared, and safe for concurrent use.
//   - daemonLog owns the log, its level and the lines that are not written yet.
//
// # What may block
//
// If the annotation is followed, the start waits for the API server for up to 3 s. The
// question for holders waits for the kubelet, in goroutines of the inventory, of the recorder
// and of HTTP requests. Logging never blocks.
package main
