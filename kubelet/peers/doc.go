// Package peers watches this daemon's peers: other daemons of this plugin on the same node, such as the new daemon
// during a surge upgrade. They are found by their sockets in the kubelet's directory. The package reports one event,
// [Peers.Gone]: a peer that registered later than this daemon is gone. It also generates the socket names by which
// daemons recognize each other, and removes sockets left by daemons that were killed.
//
// Up to version 1.36, the kubelet only uses the plugin that registered a resource last. When that plugin exits, the
// kubelet doesn't switch back to another one, and the other plugins don't find out, because their streams stay open. So
// each daemon watches its peers, and re-registers after this event.
//
// # Sockets
//
// A socket's name consists of accelerator-, 13 letters and .sock. The first six letters are the same for all of a
// daemon's sockets. All versions of the daemon must use such names. They must also accept connections that never send
// any data, because each daemon keeps a connection open to each of its peers' sockets. When a peer exits, even if it is
// killed and leaves its socket behind, the kernel closes the connection. If a daemon isn't allowed to connect, for
// example because of SELinux, the peer counts as gone once its socket is removed.
//
// A peer is gone if it hasn't had a socket for 500 ms. A peer that re-registers has no socket for about 100 ms, or for
// up to 350 ms if it has to wait for a running call.
//
// # Goroutines and their state
//
// The goroutine that calls [Peers.Run] owns the known peers. Run starts a goroutine for each connection, and waits for
// all of them before it returns. All callers of Gone see the newest event. Only Run and [Peers.RemoveLeftovers] block.
package peers
