// Package server is the device plugin that the kubelet knows: it registers one endpoint
// per resource, feeds the ListAndWatch streams from inventory's snapshots, and
// answers Allocate.
//
// It never judges health and never reads sysfs. How the kubelet behaves, and why
// things are done in this order, stands in Kubernetes'
// pkg/kubelet/cm/devicemanager (1.26 to 1.37).
//
// # Who owns what
//
//   - The conductor, the goroutine of [Server.Run], follows [Devices.Latest],
//     sorts the devices by [inventory.Device.OfferedAs], and hands each endpoint its
//     list through a feed: the newest value and a channel that is closed when it is
//     stale. An equal list is not handed on. A device that moves to another
//     resource leaves the first one's list before it comes to the second's; another
//     mode moves many, and is nothing else. The conductor alone creates endpoints (with
//     a resource's first device) and retires them.
//   - An endpoint, one goroutine per resource, holds one session after the other
//     and keeps why the last one ended.
//   - A session is one registration: a socket of its own with a path that was
//     never used before, a gRPC server on it, and the streams that the kubelet
//     opened there. Streams read the endpoint's feed; each sends at its own pace
//     and none waits for another.
//   - The injection, a goroutine where CDI is on, keeps the spec file as the
//     conductor wants it. Allocate does the same before it gives a name away.
//   - [Allocations] are the devices that Allocate has given out and that the
//     pod-resources API may not show yet. They belong to the caller, and outlive endpoints.
//     Whether such a device may be offered under another name is the inventory's decision:
//     until it may, it is unhealthy there, and Allocate refuses it.
//   - The peers, a goroutine, hold a connection to each socket of other daemons of
//     ours in the kubelet's directory, and publish when one has gone.
//   - The directory watch signals all endpoints that something in the kubelet's
//     directory may have changed, not what: an endpoint takes the channel first and then
//     looks for itself, so nothing can be missed.
//
// # A session
//
// Connect to kubelet.sock, listen, serve, Register, then wait for the reason to
// end. To connect first has two uses: a kubelet that is dead costs no socket;
// and a kubelet deletes the sockets of others before it listens, so one that we
// are connected to will not delete the socket that we make next. Streams are
// ended and awaited before the next session begins: a kubelet up to 1.36 drops a
// new registration when an older stream of the same resource ends.
//
// With one exception. Such a kubelet forgets a session for good when another daemon
// registers after it and then ends; one of 1.37 does not. The versions cannot be told
// apart. So that session, the superseded one, goes on until the next one has its stream:
// in 1.37 nothing is missing meanwhile, and before that its end costs one more
// registration.
//
// # What may block
//
// Register, up to [Config.RegisterTimeout], and a stream whose kubelet does not
// read; each holds up its own goroutine only, and both end at once with the
// session. The feeds never block.
package server
