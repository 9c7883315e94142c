// Package chart proves the Helm chart in deploy/helm, without a cluster and without
// network: `helm lint --strict`, what it renders (testdata/sets), what its schema
// refuses, that the API server's types and the daemon itself take what it renders,
// and that what is made from it is not stale (deploy/manifests, docs/install.md).
//
// Helm is that of this module's go.mod (`go tool helm`).
//
//	go test ./chart            # make test-chart
//	go test ./chart -update    # make manifests: write golden files, manifests, table; then read `git diff`
package chart
