// Command accelerator-dra-driver publishes a node's FPGA cards in ResourceSlices, and prepares them for pods' claims.
//
// This package only wires things up: it parses the command line, combines the packages claims, slices and driver into a
// [daemon.API], and turns errors into exit codes (0 success, 1 failure, 2 usage). The daemon itself is in package
// daemon of the root module.
//
//   - main.go contains the command line and the exit codes, settings.go the settings that the device plugin doesn't
//     have, and service.go the implementation of daemon.API.
//
// The package keeps no state. For the state of a running daemon, see package daemon; for prepared claims, dra/claims;
// and for published devices, dra/slices.
package main
