// Command accelerator-fpga keeps the bitstreams of a node: it shows the contents of a
// file, puts files into the store, and lists the store.
//
// This package only wires: it turns the command line into calls of the package programming,
// their results into tables or JSON, and errors into one line on stderr and an exit code (0
// fine, 1 failure, 2 usage). It owns no state.
//
// SIGINT and SIGTERM end an installation, which leaves nothing behind, and a listing. A
// second signal kills.
package main
