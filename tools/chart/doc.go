// Package chart proves the Helm chart in deploy/helm, without a cluster and without
// network: `helm lint --strict`, what it renders (testdata/sets), what its schema
// refuses, that the API server's types and the daemon itself take what it renders,
// and that what is made from it is not stale (deploy/manifests, docs/install.md).
//
// Helm is that of this module's go.mod (`go tool helm`).
//
//	go test -count=1 ./chart            # make test-chart
//	go test -count=1 ./chart -update    # make manifests: write golden files, manifests, table; then read `git diff`
//
// -count=1, because go test remembers a result as long as no file of this module
// has changed, and the chart is outside of it.
package chart
