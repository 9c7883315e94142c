// Command accelerator-device-plugin tells the kubelet which FPGA cards a node
// has, and follows them as they are plugged, pulled, reprogrammed and broken.
//
// This package only wires: it reads the configuration, joins watcher, inventory
// and server, and turns errors into exit codes (0 fine, 1 failure, 2 usage). It
// is the only place that looks at the environment, at signals and that exits.
//
// Of state it owns what goes on when another mode makes the parts anew (service):
// the settings as they were read last, under which names devices were ever offered,
// and the servers that have given something out lately.
package main
