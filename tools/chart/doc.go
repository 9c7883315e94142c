// Package chart tests the Helm charts in deploy/helm, without a cluster and without network:
// `helm lint --strict`, the rendered objects (testdata), the values that the schemas refuse, that
// the types of the API server and the daemon accept the objects, and that the files written from
// the charts are up to date (deploy/manifests, tables of values in docs).
//
// The go.mod of this module pins the version of Helm (`go tool helm`).
//
//	go test -count=1 ./chart            # make test-chart
//	go test -count=1 ./chart -update    # make manifests: write golden files, manifests, tables; then read `git diff`
//
// -count=1 is needed because go test caches a result until a file of this module changes, and the
// charts are outside of the module.
package chart
