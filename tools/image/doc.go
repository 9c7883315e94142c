// Command image makes an OCI archive of the daemon, without docker, registry or
// base image:
//
//	image -binary FILE [-binary FILE] -version V -revision R -created SECONDS -out FILE.tar -sbom FILE.json [-root DIR]
//
// The image has the files that [Rootfs] returns and nothing else: the static binaries, their
// source code, and the licences of all that is linked into them; no shell. The same
// arguments and the same work tree give the same bytes: files are sorted, all times are
// -created, and no input is used but the modules that are listed in the binaries.
//
// The source is in the image because the daemon's binary is conveyed under GPL-3.0: every recipient
// of the image must get the source, also one who gets it from another recipient. A separate
// archive would not be passed on with it.
//
// The archive is an OCI image layout. It also has a manifest.json, which is what
// `docker load` looks for before version 25; readers of OCI pass over it.
//
// The -module must be in a git work tree, and its go.mod must have those modules (`go list`
// finds them, `go mod vendor` copies their source).
package main
