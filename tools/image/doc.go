// Command image makes an OCI archive of the daemon, without docker, registry or
// base image:
//
//	image -binary FILE -version V -revision R -created SECONDS -out FILE.tar -sbom FILE.json [-root DIR]
//
// The image is what [Rootfs] returns and nothing else: the static binary, its source
// code, and the licences of what is linked into it; no shell. The same arguments and
// the same work tree give the same bytes: files are sorted, all times are -created,
// nothing is asked but the modules that the binary says it was made of.
//
// The source is in the image because the binary is conveyed under GPL-3.0: everybody
// who receives the image is to receive the source, also from those who pass the image
// on. A second archive would be lost on the way.
//
// The archive is an OCI image layout. It also has a manifest.json, which is what
// `docker load` looks for before version 25; readers of OCI pass over it.
//
// The -module must be in a git work tree, and have those modules (`go list` says where
// they are, `go mod vendor` copies their source).
package main
