// Command release completes the dist/release directory, which `make release` prepares for the person who signs and
// publishes it:
//
//	release -check -version V -tree DIR
//	release -chart CHART -version V -tree DIR -created SECONDS [-registry R] -out DIR
//	release -version V -tree DIR -revision R -created SECONDS [-registry R] [-url URL] -dist DIR -out DIR
//
// With -check, it only reports why a version can't be built from this tree, so that you don't find out after minutes of
// building. With -chart, it packages a chart from deploy/helm with the version, the image names and the annotations for
// Artifact Hub.
//
// Without these flags, -out must already contain the archives for users, the charts and the manifests, and -dist the
// output of `make image`. The command adds an OCI layout for each image and each chart, with bills of materials and
// provenance attached. It also adds the release notes, the provenance of all files, publish.sh and SHA256SUMS. The
// result depends only on the commit, the arguments and the Go version.
package main
