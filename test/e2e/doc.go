// Command e2e brings up a Kubernetes of one node on this machine, installs the chart
// with helm, and tells stories of what befalls it there:
//
//	e2e -bin DIR -workload BINARY -dist DIR -version V -tree DIR -out DIR [-only PATTERN] [-keep]
//	e2e -check
//
// The node has no card but those that the stories plug into a simulated one, by the command
// simulate, which the chart's value simulatedNode puts in place of /sys and
// /dev; their nodes are true devices, without a driver. Everything else is what runs
// anywhere: package cluster.
//
// A story is a function ([stories]); it begins with an empty node, without release and
// without pods of ours, and has a resource name of its own, because a node never forgets
// one. It says with step what comes next, and ends at the first thing that is wrong.
// The exit status is 0 when all ended well, 1 when a story did not, 2 for usage, 3 when
// there was no cluster.
package main
