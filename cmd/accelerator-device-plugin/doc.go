// Command accelerator-device-plugin offers the FPGA cards of a node to the kubelet, and
// updates the offer when cards are plugged, pulled, reprogrammed or fail.
//
// This package only wires: it reads the command line, joins the daemon and the server, and turns
// errors into exit codes (0 success, 1 failure, 2 usage). Only this package exits. Only it and
// daemon read the environment and handle signals.
//
// # Where things are
//
//   - main.go and root.go have the exit codes and the command line. Each command has a file: serve.go, devices.go,
//     watch.go, cordon.go (also uncordon and forget), canpull.go, check.go, explain.go, logs.go, demo.go, simulate.go. ask.go is for the commands that
//     ask a running daemon, granted.go for the test of the chart.
//   - The flags of serve are in daemon/config/flags.go. cmd/internal/deviceplugin joins the daemon and the server.
//
// # State
//
// offer.Ownership has the names of our resources, also those of earlier rules. server.Allocations has the
// devices that the kubelet may not show as held yet. Both are shared, and safe for concurrent use.
// daemon documents the state of a running daemon.
package main
