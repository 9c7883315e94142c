// Package peers watches the peers of this daemon: the other daemons of this plugin that serve in the kubelet's
// directory, such as the new daemon during an upgrade with surge. It reports one event, [Peers.Gone]: a peer that
// registered later than this daemon has ended. It also makes up the names of sockets, by which daemons recognize each
// other, and removes the sockets of dead daemons.
//
// A kubelet up to 1.36 uses one plugin per resource, the one that registered last. When that
// plugin ends, the kubelet uses none: the others keep their streams and get no notice. So each
// daemon watches its peers, and registers again after the event.
//
// # Sockets
//
// The name of a socket is accelerator-, 13 letters, .sock. The first six letters are the same
// for all sockets of one daemon. Daemons of all versions must use these names. They must also accept
// connections that send no data: a daemon holds one to each socket of its peers. The
// connection is closed when the peer ends, even if the peer was killed and its socket is left. If a
// daemon may not connect, because of SELinux for example, the peer counts as gone when its socket is
// removed.
//
// A peer is gone when it has had no socket for 500 ms. A peer that registers again has no socket for a tenth of a
// second, and for up to a quarter of a second more if it has to end a call.
//
// # Goroutines and their state
//
// The goroutine of [Peers.Run] owns the known peers. There is one more goroutine for each
// connection; Run waits for them. All readers share the newest event. No method except Run and
// [Peers.RemoveLeftovers] blocks.
package peers
