// Command accelerator-dra-driver publishes the FPGA cards of a node in ResourceSlices, and prepares
// them for the claims of pods.
//
// This package only wires: it reads the command line, and makes the packages claims, slices and driver
// the API of the daemon, which is in the root's internal/daemon. Errors become exit codes (0 success,
// 1 failure, 2 usage).
//
//   - main.go has the command line and the exit codes, settings.go the settings that the daemon of the
//     device plugin does not have, and service.go joins the parts.
//
// It owns no state: that of a running daemon is documented in internal/daemon, the prepared claims in
// dra/claims, and what is published in dra/slices.
package main
