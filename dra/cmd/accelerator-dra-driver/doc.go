// Command accelerator-dra-driver publishes the FPGA cards of a node in ResourceSlices, and prepares
// them for the claims of pods.
//
// This package only wires: it reads the command line, and joins the packages claims, slices and driver to
// the [daemon.API] of the daemon, which is in daemon of the root module. It turns errors into exit
// codes (0 success, 1 failure, 2 usage).
//
//   - main.go has the command line and the exit codes. settings.go has the settings that the device plugin
//     does not have. service.go joins the parts.
//
// The package owns no state. The state of a running daemon is documented in daemon, the prepared
// claims in dra/claims, and the published devices in dra/slices.
package main
