// Command accelerator-device-plugin tells the kubelet which FPGA cards a node
// has, and follows them as they are plugged, pulled, reprogrammed and broken.
//
// This package only wires: it reads the configuration, joins watcher, inventory
// and server, and turns errors into exit codes (0 fine, 1 failure, 2 usage). It
// is the only place that looks at the environment, at signals and that exits.
//
// It owns the state that outlives a change of mode, which replaces the other parts
// (service): the settings as they were read last, the names under which devices were
// ever offered, the allocations that the kubelet may not show yet, and the log.
package main
