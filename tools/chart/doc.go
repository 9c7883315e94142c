// Package chart tests the Helm charts in deploy/helm, without a cluster and without a network. It runs `helm lint
// --strict`, compares the rendered objects with golden files (testdata), and checks which values the schemas refuse. It
// also checks that the types of the API server and the daemon accept the objects, and that the files that are generated
// from the charts are up to date (deploy/manifests, tables of values in docs).
//
// The go.mod of this module pins the version of Helm (`go tool helm`).
//
//	go test -count=1 ./chart            # make test-chart
//	go test -count=1 ./chart -update    # make manifests: write golden files, manifests, tables; then read `git diff`
//
// -count=1 is needed because the charts are outside of this module: go test caches a result until a file of the module
// changes.
package chart
