// Package peers watches this daemon's peers: this plugin's other daemons whose sockets are in the kubelet's directory,
// such as the new daemon during an upgrade with surge. It reports one event, [Peers.Gone]: a peer that registered later
// than this daemon has ended. It also generates the socket names by which daemons recognize each other, and removes
// dead daemons' sockets.
//
// A kubelet up to 1.36 uses one plugin per resource, the one that registered last. When that plugin ends, the kubelet
// doesn't use any: the others keep their streams and aren't notified. So each daemon watches its peers and re-registers
// after the event.
//
// # Sockets
//
// A socket's name consists of accelerator-, 13 letters and .sock. The first six letters are the same for all of a
// daemon's sockets. Daemons of all versions must use these names. They must also accept connections that don't send any
// data, because a daemon keeps one open to each of its peers' sockets. The connection is closed when the peer ends,
// even if the peer was killed and its socket is left behind. If a daemon isn't allowed to connect, for example because
// of SELinux, the peer counts as gone when its socket is removed.
//
// A peer is gone when it hasn't had a socket for 500 ms. A peer that re-registers is without a socket for a tenth of a
// second, plus up to a quarter of a second if it has to end a call.
//
// # Goroutines and their state
//
// The goroutine of [Peers.Run] owns the known peers. There is another goroutine for each connection, and Run waits for
// all of them. All readers share the newest event. Only Run and [Peers.RemoveLeftovers] block.
package peers
