// Command accelerator-device-plugin tells the kubelet which FPGA cards a node
// has, and follows them as they are plugged, pulled, reprogrammed and broken.
//
// This package only wires: it reads the configuration, joins watcher, inventory
// and server, and turns errors into exit codes (0 fine, 1 failure, 2 usage). It
// is the only place that looks at the environment, at signals and that exits.
//
// # Who owns what
//
// There is one watcher, inventory, server and HTTP server for the life of the daemon.
//
//   - The goroutine of service.serve owns the newest settings and the mode. SIGHUP and the
//     node's annotation change them; it makes a policy of them and hands that to the
//     inventory. Nothing is restarted.
//   - The task that follows the node's annotation owns the modeSelector. It hands over the
//     newest mode through a channel of size one.
//   - ownership has the names of resources that are ours: names of earlier rules, too.
//     server.Allocations has the devices that the kubelet may not show as held yet. Both are
//     shared, and safe for concurrent use.
//   - daemonLog owns the log, its level and the lines that are not written yet.
//
// # What may block
//
// The start waits for the API server, for 3 s at most, where the annotation is followed. The
// question for holders waits for the kubelet, in goroutines of the inventory, of the recorder
// and of HTTP requests. Logging never blocks.
package main
