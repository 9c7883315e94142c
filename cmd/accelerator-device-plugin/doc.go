// Command accelerator-device-plugin offers the FPGA cards of a node to the kubelet, and
// updates the offer when cards are plugged, pulled, reprogrammed or fail.
//
// This package only wires: it reads the command line, joins the daemon and the server, and turns
// errors into exit codes (0 success, 1 failure, 2 usage). Only this package exits. Only it and
// daemon read the environment and handle signals.
//
// # Where things are
//
//   - main.go and root.go have the exit codes and the command line. Each command has a file: serve is
//     in service.go, devices.go, watch.go, cordon.go (and uncordon), canpull.go, logs.go, demo.go and
//     simulate.go have the others. ask.go is for the commands that ask a running daemon.
//   - service.go connects the server to the daemon, which is in daemon. holders.go finds the
//     holders of devices.
//
// # State
//
// offer.Ownership has the names of our resources, also those of earlier rules. server.Allocations has the
// devices that the kubelet may not show as held yet. Both are shared, and safe for concurrent use.
// daemon documents the state of a running daemon.
package main
