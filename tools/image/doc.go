// Command image makes an OCI archive of static binaries of this project, without docker, registry
// or base image:
//
//	image -name N -description TEXT -licence SPDX -binary FILE [-binary FILE] [-source]
//	      -tree DIR -module DIR -version V -revision R -created SECONDS
//	      -out FILE.tar -sbom FILE.json [-root DIR]
//
// The image has the files that [Rootfs] returns and nothing else: the binaries, with -source their
// source code, and the licences of all that is linked into them; no shell. The same
// arguments and the same work tree give the same bytes: files are sorted, all times are
// -created, and no input is used but the modules that are listed in the binaries.
//
// The source is in the daemon's image because its binary is conveyed under GPL-3.0: every recipient
// of the image must get the source, also one who gets it from another recipient. A separate
// archive would not be passed on with it. Without -source, binaries that link a module under a
// licence of GNU are refused.
//
// The archive is an OCI image layout. It also has a manifest.json, which is what
// `docker load` looks for before version 25; readers of OCI pass over it.
//
// The go.mod of -module must have the modules of the binaries: `go list` finds them. With -source
// that directory is the top of a git work tree, and `go mod vendor` copies the modules' source.
package main
