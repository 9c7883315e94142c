// Command accelerator-fpga-registry moves bitstreams between a node's store and OCI registries. It is the part of
// accelerator-fpga that uses the network: accelerator-fpga pull, push and keep run it. So the program that container
// runtimes run as root never uses the network itself. The chart runs the command keep on each node.
//
// This package only wires things up: it turns the command line into calls of package transfer, and errors into one line
// on stderr and an exit code (0 success, 1 failure, 2 usage). Its only state is the Event that it wrote last. SIGINT
// and SIGTERM end a transfer. The next pull continues it.
package main
