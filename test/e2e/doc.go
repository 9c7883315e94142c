// Command e2e starts a one-node Kubernetes cluster on this machine, installs the charts with Helm, and runs test
// stories on it:
//
//	e2e -bin DIR -cert-manager DIR -workload BINARY -dist DIR -version V -tree DIR -out DIR [-only PATTERN] [-keep]
//	e2e -check
//
// The node has no real cards. The stories plug in simulated ones with the command simulate, and the chart value
// simulatedNode makes the daemon use them instead of /sys and /dev. Their device nodes are real character devices, but
// have no driver. All other software in the cluster consists of released versions: see package cluster.
//
// A story is a function in [stories]. It starts with an empty node, without a release and without pods. Every story
// uses a resource name of its own, because a kubelet never removes a resource from its node's status. A story prints
// each step, and stops at the first failure. The exit status is 0 if all stories passed, 1 if one failed, 2 if the
// command line is invalid, and 3 if the cluster did not start.
package main
