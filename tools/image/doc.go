// Command image writes an OCI archive of this project's static binaries without docker, a registry or a base image:
//
//	image -name N -description TEXT -licence SPDX -binary FILE [-binary FILE] [-source]
//	      -tree DIR -version V -revision R -created SECONDS
//	      -out FILE.tar -sbom FILE.json [-root DIR]
//
//	image -binary FILE [-binary FILE] [-source -version V [-source-archive FILE.tar.gz]] -tree DIR -created SECONDS
//	      -user-archive FILE.tar.gz [-file FILE]
//
// A single command can write both archives.
//
// The image contains only the files that [Rootfs] returns: the binaries, their source code (with -source), and the
// licences of all modules linked into them. It doesn't contain a shell. The result is reproducible: files are sorted,
// all times are -created, and the only inputs are the arguments, the work tree and the modules listed in the binaries.
//
// The daemon and DRA driver images contain the source because their binaries are conveyed under GPL-3.0. Everyone who
// receives such an image must also receive the source, even from someone who passes on the image but wouldn't pass on a
// separate archive. Without -source, the command rejects binaries that link a module under a GNU licence (GPL, LGPL,
// AGPL).
//
// The archive is an OCI image layout. It also contains a manifest.json for `docker load` before version 25, which other
// OCI tools ignore.
//
// A binary contains the name of the module that it was built from. This module must be below -tree, and its go.mod must
// list the modules linked into the binary, because the command uses `go list` to find them. With -source, -tree must be
// the top directory of a git work tree. `go mod vendor` copies the source of other modules.
package main
