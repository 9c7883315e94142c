// Package chart proves the Helm charts in deploy/helm, without a cluster and without
// network: `helm lint --strict`, the rendered objects (testdata), the values that their
// schemas refuse, that the API server's types and the daemon accept the objects, and that
// files made from the charts are up to date (deploy/manifests, tables of values in docs).
//
// Helm is that of this module's go.mod (`go tool helm`).
//
//	go test -count=1 ./chart            # make test-chart
//	go test -count=1 ./chart -update    # make manifests: write golden files, manifests, tables; then read `git diff`
//
// -count=1, because go test remembers a result as long as no file of this module
// has changed, and the charts are outside of it.
package chart
