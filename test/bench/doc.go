// Command bench measures the daemon and prints the table of the README:
//
//	bench BINARY
//
// It runs the given binary as a process on simulated nodes, with a stand-in for the kubelet in
// its own process, and measures the daemon from outside. It also runs the hook of
// accelerator-fpga, and measures accelerator-dra-driver, which must be in the same directory, and
// runs Go benchmarks of this module and of the module operator. The table has medians or distributions, and the aims. bench does not
// compare them; it fails only if a measurement fails. Machines are shared and noisy: run it twice.
//
// A simulated tree is read from memory. In a real sysfs, each attribute adds the access time of
// its hardware.
package main
