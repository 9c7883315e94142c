// Command e2e starts a one-node Kubernetes cluster on this machine, installs the charts with helm, and runs test
// stories on it:
//
//	e2e -bin DIR -cert-manager DIR -workload BINARY -dist DIR -version V -tree DIR -out DIR [-only PATTERN] [-keep]
//	e2e -check
//
// The node has no real cards. The stories plug in simulated ones with the command simulate, and the chart's value
// simulatedNode makes the daemon use them instead of /sys and /dev. Their device nodes are real character devices
// without a driver. All other parts of the cluster are the released ones: see package cluster.
//
// A story is a function in [stories]. It begins with an empty node, without a release and without pods. It uses its own
// resource name, because a kubelet never removes a resource from its node's status. A story prints each step, and
// ends at the first failure. The exit status is 0 if all stories passed, 1 if one failed, 2 for a wrong command line,
// and 3 if the cluster could not be started.
package main
