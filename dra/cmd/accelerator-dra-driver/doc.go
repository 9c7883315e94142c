// Command accelerator-dra-driver publishes the FPGA cards of a node in ResourceSlices, and prepares
// them for the claims of pods.
//
// This package only wires things up: it reads the command line, and joins the packages claims, slices and driver to
// form the [daemon.API] of the daemon. The daemon itself is in the package daemon of the root module. This package also
// turns errors into exit codes (0 success, 1 failure, 2 usage).
//
//   - main.go contains the command line and the exit codes. settings.go contains the settings that the device plugin
//     does not have. service.go joins the parts.
//
// The package owns no state. The package daemon documents the state of a running daemon, dra/claims the prepared
// claims, and dra/slices the published devices.
package main
