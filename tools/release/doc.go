// Command release puts together what `make release` leaves in dist/release, for the person who signs and publishes it:
//
//	release -check -version V -tree DIR
//	release -chart CHART -version V -tree DIR -created SECONDS [-registry R] -out DIR
//	release -version V -tree DIR -revision R -created SECONDS [-registry R] [-url URL] -dist DIR -out DIR
//
// With -check it only says why a version cannot be built from this tree, before minutes of building. With -chart it packages a chart of
// deploy/helm with the version, the names of the images and the annotations for Artifact Hub.
//
// Without them, the directory -out already contains the archives for users, the charts and the manifests, and -dist what `make image` has
// written. The command adds an OCI layout for each image and each chart, with bills of materials and provenance attached, the release
// notes, provenance of all files, publish.sh, and SHA256SUMS. The result only depends on the commit, the arguments and the version of Go.
package main
