// Package transfer moves bitstreams between a node's store and OCI registries.
//
// # Trust
//
// The registry, the network and the artifact may be hostile. A [Client] speaks https only, except with the registry
// itself if PlainHTTP is set. It sends credentials to the registry, and to a token server in the same domain. Everything
// that it reads is limited in size, and compared with its digest. A bitstream is installed by
// [programming.Store.Install], which checks it in the same way as a local file. If the store has a file signers.pem, only
// what the holder of one of its keys has signed is installed.
//
// # State
//
// A pull keeps the part that it has downloaded in a file .pull-… of the store, and continues it after a
// lost connection, or when it is called again. It removes the file when it has succeeded, or when continuing is useless.
// The file is locked while a pull uses it, so pulls of the same file wait for each other. Without [Options.KeepParts], a pull
// removes what others have left, so that there is one such file at most.
//
// # What may block
//
// All methods block for the network until their context ends. A connection on which no byte moves for [Client.Stall] is
// given up, and tried again.
package transfer
