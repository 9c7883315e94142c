// Command accelerator-device-plugin advertises the FPGA cards of a node to the kubelet, and updates the list when cards
// are plugged, pulled or reprogrammed, or fail.
//
// This package only connects the others: it reads the command line, joins the daemon and the server, and turns errors
// into exit codes (0 success, 1 failure, 2 usage). Only this package exits. Only this package and package daemon read
// the environment and handle signals.
//
// # Where things are
//
//   - main.go and root.go define the exit codes and the command line. Each command has a file: serve.go, devices.go,
//     watch.go, cordon.go (also uncordon and forget), canpull.go, check.go, explain.go, logs.go, demo.go, simulate.go.
//     ask.go is for the commands that ask a running daemon, granted.go for the test of the chart.
//   - The flags of serve are in daemon/config/flags.go. cmd/internal/deviceplugin joins the daemon and the server.
//
// # State
//
// offer.Ownership keeps the names of our resources, including the names that earlier rules gave. server.Allocations
// tracks devices that were allocated but that the kubelet may not list as held yet. Both are shared, and safe for
// concurrent use. Package daemon documents the state of a running daemon.
package main
