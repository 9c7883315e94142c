// Command accelerator-device-plugin offers the FPGA cards of a node to the kubelet, and
// updates the offer when cards are plugged, pulled, reprogrammed or fail.
//
// This package only wires: it reads the configuration, joins watcher, inventory
// and server, and turns errors into exit codes (0 success, 1 failure, 2 usage). Only this
// package reads the environment, handles signals and exits.
//
// # Where things are
//
//   - main.go and root.go have the exit codes and the command line. Each command has a file: serve is
//     in service.go, devices.go, watch.go, cordon.go (and uncordon), canpull.go, logs.go, demo.go and
//     simulate.go have the others. ask.go is for the commands that ask a running daemon.
//   - service.go joins the parts of the daemon, from top to bottom. node.go makes the watcher, the
//     inventory and its policy; settings.go follows the files of settings, annotation.go the node's
//     annotation; holders.go finds the holders of devices; logger.go has the log.
//   - The daemon's answers: state.go for the local socket and HTTP, answers.go for HTTP and its probes,
//     metrics.go for the gauges.
//
// # State
//
// There is one watcher, inventory, server, HTTP server and local socket for the life of the daemon.
//
//   - The goroutine of service.serve owns the newest settings and the mode. Changed files, SIGHUP
//     and the node's annotation change them. It makes a policy of them and of the cordons, and hands
//     that to the inventory; the inventory and the server keep running.
//   - [cordon.Book] owns the cordons. The task "cordons" and the requests at the local socket use it.
//   - liveSettings has the files that were read last, for the goroutine of service.serve. Its state
//     is for any goroutine.
//   - stateSource joins the newest snapshot, settings, cordons and holders for each request. It owns
//     nothing but the signal that one of them has changed.
//   - The task that follows the node's annotation owns the modeSelector. It hands over the
//     newest mode through a channel of size one.
//   - ownership has the names of our resources, also those of earlier rules.
//     server.Allocations has the devices that the kubelet may not show as held yet. Both are
//     shared, and safe for concurrent use.
//   - daemonLog owns the log, its level and the lines that are not written yet.
//
// # What may block
//
// If the annotation is followed, the start waits up to 3 s for the API server. A request for the
// holders of devices waits for the kubelet. It runs in goroutines of the inventory, of the recorder,
// and of requests over HTTP and at the local socket. A request to cordon waits for the disk of the
// state directory. Logging never blocks.
package main
