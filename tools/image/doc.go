// Command image makes an OCI archive of the daemon, without docker, registry or
// base image:
//
//	image -binary FILE -version V -revision R -created SECONDS -out FILE.tar -sbom FILE.json [-root DIR]
//
// The image is what [Rootfs] returns and nothing else: the static binary, and the
// licences of what is linked into it; no shell. The same arguments give the same
// bytes: files are sorted, all times are -created, nothing is asked but the
// modules that the binary says it was made of.
//
// The archive is an OCI image layout. It also has a manifest.json, which is what
// `docker load` looks for before version 25; readers of OCI pass over it.
//
// Run it in a module that has those modules (it asks `go list` where they are).
package main
