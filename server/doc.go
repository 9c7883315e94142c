// Package server is the device plugin: it registers one endpoint per resource with the kubelet, feeds the ListAndWatch
// streams from inventory's snapshots, and answers Allocate.
//
// The package never judges health and never reads sysfs. The order of its steps is dictated by the kubelet's device
// manager, pkg/kubelet/cm/devicemanager in Kubernetes (1.26 to 1.37).
//
// # Goroutines and their state
//
//   - The conductor, the goroutine of [Server.Run], follows [Devices.Latest], sorts the devices by
//     [inventory.Device.OfferedAs], and hands each endpoint its list through a [latest.Value]. An unchanged list isn't
//     handed over. A device that moves to another resource leaves the old list before it enters the new one; a change
//     of mode moves many devices this way. Only the conductor creates endpoints, when a resource gets its first device,
//     and retires them: after [Config.RetireAfter] without devices, or immediately if the resource has had none since a
//     change of mode.
//   - An endpoint, one goroutine per resource, runs one session after another and remembers why the previous session
//     ended.
//   - A session is one registration: its own socket at a path that was never used before, a gRPC server on that socket,
//     and the streams that the kubelet has opened on it. Streams read the endpoint's newest list. Each sends at its own
//     pace without waiting for the others.
//   - The injection, a goroutine that runs if CDI is enabled, writes the conductor's desired content to the spec file.
//     Allocate does the same before it returns a CDI name.
//   - [Config.Allocations] tracks the devices that were allocated, because the pod-resources API may not show them yet.
//     It belongs to the caller and outlives endpoints. The inventory decides when such a device may be offered under
//     another name. Until then the device is unhealthy, and Allocate rejects it.
//   - Package peers reports when another daemon of this plugin, which registered later than the session, has ended.
//   - The directory watch signals to all endpoints that the kubelet's directory may have changed. An endpoint takes the
//     channel first and then checks the files, so it doesn't miss any changes.
//
// # A session
//
// A session connects to kubelet.sock, listens, serves, registers, and then waits for a reason to end. It connects first
// for two reasons: it doesn't create a socket while the kubelet is down, and the kubelet can't delete the socket. (The
// kubelet deletes all sockets in its directory before it listens, so a kubelet that accepts the connection has already
// done that.) A session's streams have ended before the next session begins, because a kubelet up to 1.36 drops a new
// registration when an older stream for the same resource ends.
//
// There is one exception. A kubelet up to 1.36 drops a session for good if another daemon registers later and then
// ends; a 1.37 kubelet doesn't. The daemon can't tell the versions apart. So such a session is superseded: it keeps
// serving until the next session has its stream. With 1.37 this avoids a gap. With earlier versions, ending the
// superseded session costs one more registration.
//
// # What may block
//
// Register may block for up to [Config.RegisterTimeout], and a stream for as long as the kubelet doesn't read. Each
// holds up only its own goroutine, and both end as soon as the session does. Handing over a list never blocks.
package server
