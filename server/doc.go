// Package server is the device plugin: it registers one endpoint per resource with the
// kubelet, feeds the ListAndWatch streams from inventory's snapshots, and answers Allocate.
//
// It never judges health and never reads sysfs. The order of its steps follows from the
// kubelet's device manager, pkg/kubelet/cm/devicemanager of Kubernetes (1.26 to 1.37).
//
// # Goroutines and their state
//
//   - The conductor, the goroutine of [Server.Run], follows [Devices.Latest], sorts the devices by
//     [inventory.Device.OfferedAs], and hands each endpoint its list through a [latest.Value]. An unchanged list is not
//     handed over. A device that moves to another resource leaves the old list before it enters the new one. A change
//     of mode moves many devices in this way. The conductor alone creates endpoints (with the first device of a
//     resource) and retires them: after [Config.RetireAfter] without devices, or at once if the resource has none since
//     a change of mode.
//   - An endpoint, one goroutine per resource, runs one session after the other and remembers why the last one ended.
//   - A session is one registration: a socket of its own with a path that was never used before, a gRPC server on it,
//     and the streams that the kubelet opened there. Streams read the endpoint's newest list. Each sends at its own
//     pace, and none waits for another.
//   - The injection, a goroutine if CDI is on, writes the content that the conductor wants into the spec file. Allocate
//     does the same before it returns a CDI name.
//   - [Config.Allocations] tracks the devices that Allocate has given out, because the pod-resources API may not show
//     them yet. It belongs to the caller, and outlives endpoints. The inventory decides when such a device may be
//     offered under another name. Until then the device is unhealthy, and Allocate refuses it.
//   - Package peers reports when another daemon of this plugin, which registered later than the session, has ended.
//   - The directory watch signals to all endpoints that the kubelet's directory may have
//     changed. An endpoint takes the channel first and then checks the files, so it misses no
//     change.
//
// # A session
//
// A session connects to kubelet.sock, listens, serves, registers, and then waits for a reason to end. It connects first
// for two reasons: no socket is made while the kubelet is down, and the kubelet cannot delete the socket. (It deletes
// all sockets in its directory before it listens, so a kubelet that accepts the connection has already done so.)
// Streams are ended and awaited before the next session begins, because a kubelet up to 1.36 drops a new registration
// when an older stream of the same resource ends.
//
// There is one exception. A kubelet up to 1.36 drops a session for good if another daemon registers later and then
// ends; a kubelet of 1.37 does not. The daemon cannot distinguish the versions. So such a session, the superseded one,
// keeps serving until the next one has its stream. With 1.37 there is then no gap. With earlier versions, the end of
// the superseded session costs one more registration.
//
// # What may block
//
// Register may block for up to [Config.RegisterTimeout], and a stream for as long as the kubelet does not read. Each
// holds up only its own goroutine, and both end at once with the session. Handing over a list never blocks.
package server
