// Command accelerator-fpga-registry moves bitstreams between a node's store and OCI registries. It is the part of
// accelerator-fpga that speaks to a network: accelerator-fpga pull, push and keep run it, so that the program which
// container runtimes run as root never does so. The chart runs its command keep on each node.
//
// This package only wires: it turns the command line into calls of package transfer, and errors into one line on stderr
// and an exit code (0 success, 1 failure, 2 usage). It owns no state but the Event that it has written last. SIGINT and
// SIGTERM end a transfer. The next pull continues it.
package main
