// Package server is the device plugin: it registers one endpoint per resource with the kubelet, feeds the ListAndWatch
// streams from the inventory's snapshots, and answers Allocate.
//
// The package never judges health or reads sysfs. The order in which it does things is dictated by the kubelet's device
// manager (pkg/kubelet/cm/devicemanager in Kubernetes 1.26 to 1.37).
//
// # Goroutines and their state
//
//   - The conductor, which is the goroutine that calls [Server.Run], follows [Devices.Latest], groups the devices by
//     [inventory.Device.OfferedAs], and hands each endpoint its list through a [latest.Value]. An unchanged list isn't
//     handed over. A device that moves to another resource leaves the old list before it is added to the new one; when
//     the mode changes, many devices move this way. Only the conductor creates endpoints, when a resource gets its
//     first device, and retires them, after [Config.RetireAfter] without devices or immediately if the resource has had
//     none since the mode changed.
//   - An endpoint, one goroutine per resource, runs one session after another and remembers why the previous session
//     ended.
//   - A session is one registration: its own socket at a path that has never been used before, a gRPC server on that
//     socket, and the streams that the kubelet has opened on it. Streams read the endpoint's newest list. Each sends at
//     its own pace without waiting for the others.
//   - The injection, a goroutine that only runs if CDI is enabled, keeps the spec file's content up to date with what
//     the conductor wants. Allocate does the same before it returns a CDI name.
//   - [Config.Allocations] tracks the devices that were allocated, because the pod-resources API may not show them yet.
//     It belongs to the caller and outlives endpoints. The inventory decides when such a device may be offered under
//     another name. Until then, the device is unhealthy and Allocate rejects it.
//   - Package peers watches the plugin's other daemons on the node. It tells a session when a daemon that registered
//     after it has ended.
//   - The directory watch tells all endpoints that the kubelet's directory may have changed. An endpoint first gets a
//     new channel and then checks the files, so it doesn't miss any changes.
//
// # A session
//
// A session connects to kubelet.sock, listens, serves, registers, and then waits for a reason to end. There are two
// reasons to connect first: no socket is created while the kubelet is down, and the kubelet can't delete the socket.
// (The kubelet deletes all sockets in its directory before it listens, so if it accepts the connection, it has already
// done that.) A session's streams must have ended before the next session begins, because up to 1.36, the kubelet drops
// a new registration when an older stream for the same resource ends.
//
// There is one exception. Up to 1.36, the kubelet drops a session for good if another daemon registers later and then
// exits; as of 1.37, it doesn't. The daemon can't tell the versions apart, so such a session is superseded: it keeps
// serving until the next session has its stream. With 1.37, this avoids a gap. With earlier versions, ending the
// superseded session costs one more registration.
//
// # What may block
//
// Register may block for up to [Config.RegisterTimeout], and a stream for as long as the kubelet doesn't read. Each
// only holds up its own goroutine, and both end as soon as the session does. Handing over a list never blocks.
package server
