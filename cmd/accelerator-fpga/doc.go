// Command accelerator-fpga keeps the bitstreams of a node, shows its FPGA cards, programs
// them, and is the hook that programs the cards of a container before it starts.
//
// This package only wires: it turns the command line into calls of the package programming
// and those below it, their results into tables or JSON, and errors into one line on stderr
// and an exit code (0 fine, 1 failure, 2 usage). It owns no state.
//
// SIGINT and SIGTERM end an installation, which leaves nothing behind, a listing, and waiting
// for a card. A second signal kills. A request that a card's driver works on ends only with
// the driver; the process stays until then.
package main
