// Command bench runs Go benchmarks and prints the table of the README:
//
//	bench DIRECTORY [REGEXP]
//
// The benchmarks of this package run the programs in a directory, the daemon as a process on
// simulated nodes with a stand-in for the kubelet, and measure them from outside. Others are in the
// packages that they measure. The table has medians or distributions, and the aims. bench does not
// compare them; it fails only if a measurement fails. Machines are shared and noisy: run it twice.
//
// A simulated tree is read from memory. In a real sysfs, each attribute adds the access time of
// its hardware.
package main
