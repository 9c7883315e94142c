// Package transfer moves bitstreams between a node's store and OCI registries.
//
// # Trust
//
// The registry, the network and the artifact may be hostile. A [Client] uses only https, except for the registry itself
// if PlainHTTP is set. It sends credentials to the registry, and to a token server in the same domain. Everything that
// it reads is limited in size, and compared with its digest. A bitstream is installed with [programming.Store.Install],
// which checks it in the same way as a local file. If the store contains a file signers.pem, a bitstream is installed
// only if it was signed with one of the file's keys.
//
// # State
//
// A pull stores what it has downloaded in a file .pull-… in the store. If the connection is lost, or the pull is
// restarted, it continues from there. It removes the file when it has succeeded, or when continuing is useless. The
// pull locks the file, so pulls of the same file wait for each other. Without [Options.KeepParts], a pull removes what
// other pulls have left, so that there is at most one such file.
//
// # What may block
//
// All methods wait for the network, but no longer than until their context ends. A connection that doesn't transfer
// anything for [Client.Stall] is closed, and the client retries.
package transfer
