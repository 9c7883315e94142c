// Command accelerator-device-plugin advertises a node's FPGA cards to the kubelet, and updates the list when cards are
// plugged in, pulled or reprogrammed, or fail.
//
// This package only ties the others together: it parses the command line, connects the daemon to the server, and turns
// errors into exit codes (0 success, 1 failure, 2 usage). No other package calls os.Exit, and only package daemon also
// reads the environment and handles signals.
//
// # Where things are
//
//   - main.go and root.go define the exit codes and the command line. Each command has its own file: serve.go,
//     devices.go, watch.go, cordon.go (also uncordon and forget), canpull.go, check.go, explain.go, logs.go, demo.go,
//     simulate.go. ask.go is shared by commands that query a running daemon, and granted.go is for the chart's test.
//   - The flags of serve are in daemon/config/flags.go. cmd/internal/deviceplugin connects the daemon to the server.
//
// # State
//
// offer.Ownership keeps our resource names, including names from earlier rules. holders.Allocations tracks devices that
// have been allocated but that the kubelet may not list as held yet. Both are shared and safe for concurrent use. For
// the state of a running daemon, see package daemon.
package main
