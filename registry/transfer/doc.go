// Package transfer moves bitstreams between a node's store and OCI registries.
//
// # Trust
//
// The registry, the network and the artifact may be hostile. A [Client] uses only HTTPS, except for the registry itself
// if PlainHTTP is set. It sends credentials only to the registry and to a token server in the same domain. It limits
// the size of everything that it reads, and verifies the digest. [programming.Store.Install] checks a bitstream in the
// same way as a local file. If the store contains a signers.pem file, a bitstream must be signed with one of the keys
// in that file.
//
// # State
//
// A pull downloads to a file .pull-… in the store. After a lost connection, and when the pull is run again, it resumes
// from there. The pull removes the file when it has succeeded, or if resuming is pointless. It locks the file, so pulls
// of the same bitstream wait for each other. Without [Options.KeepParts], a pull removes the files that other pulls
// have left, so that there is at most one.
//
// # What may block
//
// All methods wait for the network, until their context is done. A connection that doesn't transfer any data for
// [Client.Stall] is closed, and the client retries.
package transfer
