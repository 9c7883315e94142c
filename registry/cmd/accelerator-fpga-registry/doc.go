// Command accelerator-fpga-registry moves bitstreams between a node's store and OCI registries. It is the part of
// accelerator-fpga that uses the network: "accelerator-fpga pull", "push" and "keep" run this program. That way,
// accelerator-fpga itself, which container runtimes run as root, never uses the network. The chart runs the keep
// command on each node.
//
// This package only wires things up: it turns the command line into calls to packages transfer and keep, and errors
// into a line on stderr and an exit code (0 success, 1 failure, 2 usage). Its only state is the last Event it wrote.
// SIGINT and SIGTERM interrupt a transfer, which the next pull resumes.
package main
