// Command accelerator-fpga manages a node's bitstreams, shows its FPGA cards and programs them. It is also the hook
// that programs a container's cards before the container starts.
//
// This package only ties the others together: it turns the command line into calls to package programming and its
// subpackages, prints the results as tables or JSON, and turns errors into a line on stderr and an exit code (0
// success, 1 failure, 2 usage). It owns no state.
//
// SIGINT and SIGTERM interrupt an installation, a listing or the wait for a card. An interrupted installation doesn't
// leave any files behind. A second signal kills the process. Requests to a card's driver can't be interrupted: the
// process won't exit until the driver returns.
package main
