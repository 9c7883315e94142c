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
// The image has only the files that [Rootfs] returns: the binaries, with -source their source
// code, and the licences of all modules that are linked into them. There is no shell. The same
// arguments and the same work tree give the same bytes: files are sorted, all times are -created,
// and the only other input is the modules that are listed in the binaries.
//
// The source is in the images of the daemon and of the DRA driver because their binaries are conveyed
// under GPL-3.0: every recipient
// of the image must get the source, also from another recipient, who would not pass on a separate
// archive. Without -source, binaries that link a module under a GNU licence (GPL, LGPL, AGPL) are
// refused.
//
// The archive is an OCI image layout. It also has a manifest.json, which `docker load` needs
// before version 25, and which readers of OCI ignore.
//
// A binary was built from one of the modules below -tree, which it names: its go.mod must list the
// modules of the binary, because `go list` finds them. With -source, -tree must be the top of a git work
// tree; `go mod vendor` copies the modules' source.
package main
