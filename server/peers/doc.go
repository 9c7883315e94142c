// Package peers watches the other daemons of ours that serve in the kubelet's directory, such as
// the new daemon during an upgrade with surge. It reports one event, [Peers.Gone]: a peer has gone
// that registered after us. It also names our sockets, by which daemons recognize each other, and
// removes those that dead daemons have left.
//
// A kubelet up to 1.36 has one plugin per resource, the one that registered last. When that
// plugin ends, the kubelet has none: the others keep their streams and get no notice. So each
// daemon watches its peers, and registers again after the event.
//
// # Sockets
//
// A socket of ours is called accelerator-, 13 letters, .sock. The first six letters are the same
// for all sockets of one daemon. Daemons of all versions must agree on this, and on the meaning
// of a connection that sends nothing: a daemon holds one to each socket of its peers. The
// connection ends with the peer, even if the peer was killed and its socket is left behind. If a
// daemon may not connect, because of SELinux for example, the peer counts as gone when its socket is
// removed.
//
// A peer has gone when it has had no socket for 300 ms. A peer that registers again has none for
// some milliseconds.
//
// # Who owns what
//
// The goroutine of [Peers.Run] owns the known peers. There is one more goroutine for each
// connection; Run waits for them. The newest event is shared by all readers. Nothing blocks.
package peers
