// Command bench runs Go benchmarks and prints the table of the README:
//
//	bench DIRECTORY [REGEXP]
//
// The benchmarks of this package run the programs in a directory, and measure them from outside. The daemon runs as a
// process on simulated nodes, with a stand-in for the kubelet. Other benchmarks are in the packages that they measure.
// The table shows medians or distributions, and the aims. bench does not compare the two, and fails only if a
// measurement fails. Machines are shared and noisy, so run it twice.
//
// A simulated tree is read from memory. In a real sysfs, reading an attribute takes additional time for accessing the
// hardware.
package main
