// Command accelerator-fpga manages the bitstreams of a node, shows its FPGA cards and programs
// them. It is also the hook that programs the cards of a container before it starts.
//
// This package only connects the others: it turns the command line into calls of package programming and the packages
// below it, their results into tables or JSON, and errors into one line on stderr and an exit code (0 success, 1
// failure, 2 usage). It owns no state.
//
// SIGINT and SIGTERM end an installation, a list and the wait for a card. An installation then
// leaves no files behind. A second signal kills the process. A request to a card's driver cannot
// be interrupted, so the process stays until the driver returns.
package main
