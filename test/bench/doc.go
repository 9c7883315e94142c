// Command bench measures the daemon and prints the table of the README:
//
//	bench BINARY
//
// It runs the given binary as a process on simulated nodes, with a stand-in for
// the kubelet in this process, and measures it from outside. It also runs the hook of
// accelerator-fpga, which is in the same directory, and benchmarks of packages, also in
// the module operator. The table has medians or distributions, and the aims. It judges
// nothing, and fails only when it cannot measure. Machines are shared and noisy: run it
// twice.
//
// A simulated tree is read from memory. On a true sysfs, each attribute adds the
// time that its hardware takes.
package main
