// Command image makes an OCI archive of static binaries of this project, without docker, registry
// or base image:
//
//	image -name N -description TEXT -licence SPDX -binary FILE [-binary FILE] [-source]
//	      -tree DIR -version V -revision R -created SECONDS
//	      -out FILE.tar -sbom FILE.json [-root DIR]
//
//	image -binary FILE [-binary FILE] [-source -version V [-source-archive FILE.tar.gz]] -tree DIR -created SECONDS
//	      -user-archive FILE.tar.gz [-file FILE]
//
// One command can write both archives.
//
// The image contains only the files that [Rootfs] returns: the binaries, their source code (with -source), and the
// licences of all modules that are linked into them. There is no shell. The same arguments and the same work tree
// result in the same bytes: files are sorted, all times are -created, and the only other inputs are the modules listed
// in the binaries.
//
// The images of the daemon and of the DRA driver contain the source because their binaries are conveyed under GPL-3.0.
// Every recipient of the image must get the source, even from another recipient, who would not pass on a separate
// archive. Without -source, the command refuses binaries that link a module under a GNU licence (GPL, LGPL, AGPL).
//
// The archive is an OCI image layout. It also contains a manifest.json, which `docker load` needs before version 25.
// Other OCI tools ignore this file.
//
// A binary names the module that it was built from. This module must be below -tree, and its go.mod must list the
// modules of the binary, because `go list` finds them. With -source, -tree must be the top of a git work tree, because
// `go mod vendor` copies the modules' source.
package main
