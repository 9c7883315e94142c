// Command bench runs Go benchmarks and prints the table in docs/measured.md:
//
//	bench DIRECTORY [REGEXP]
//
// The benchmarks in this package run the programs in DIRECTORY, and measure them from outside. The daemon runs as a
// process on simulated nodes, with a stand-in for the kubelet. Other benchmarks are in the packages that they measure.
// The table shows medians or distributions next to the targets. bench doesn't compare the two; it fails only if a
// measurement fails. Machines are shared and noisy, so run it twice.
//
// A simulated tree is read from memory. In a real sysfs, reading an attribute takes longer, because it may access the
// hardware.
package main
