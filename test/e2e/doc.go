// Command e2e starts a one-node Kubernetes cluster on this machine, installs the charts with Helm, and runs test
// stories on it:
//
//	e2e -bin DIR -cert-manager DIR -workload BINARY -dist DIR -version V -tree DIR -out DIR [-only PATTERN] [-keep]
//	e2e -check
//
// The node doesn't have real cards. The stories use the simulate command to plug in simulated ones, and the chart's
// simulatedNode value makes the daemon use them instead of /sys and /dev. Their device nodes are real character
// devices, but don't have a driver. All other software in the cluster consists of released versions (see package
// cluster).
//
// A story is a function in [stories]. It starts with an empty node, without a release or pods. Every story uses a
// resource name of its own, because a kubelet never removes a resource from its node's status. A story prints each
// step, and stops at the first failure. The exit status is 0 if all stories passed, 1 if one failed, 2 if the command
// line is invalid, and 3 if the cluster didn't start.
package main
