// Package transfer moves bitstreams between a node's store and OCI registries.
//
// # Trust
//
// The registry, the network and the artifact may be hostile. A [Client] uses only HTTPS, except with the registry
// itself if PlainHTTP is set. It sends credentials only to the registry and to a token server in the same domain. It
// limits the size of everything it reads, and verifies the digest. [programming.Store.Install] checks a bitstream the
// same way it checks a local file. If the store contains a signers.pem file, bitstreams must be signed with one of the
// keys in it.
//
// # State
//
// A pull downloads to a file .pull-… in the store. After a lost connection, or when it is run again, the pull resumes
// from there. It removes the file once it has succeeded, or if there is no point in resuming. It locks the file, so
// pulls of the same bitstream wait for each other. Without [Options.KeepParts], a pull removes files left behind by
// other pulls, so there is never more than one such file.
//
// # What may block
//
// All methods wait for the network, until their context is done. A connection that hasn't transferred any data for
// [Client.Stall] is closed, and the client retries.
package transfer
