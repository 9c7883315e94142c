// Package chart tests the Helm charts in deploy/helm without a cluster or a network. It runs `helm lint --strict`,
// compares the rendered objects with golden files (testdata), and checks which values the schemas reject. It also
// checks that the objects can be decoded into the types that the API server and the daemon use, and that the files
// generated from the charts are up to date (deploy/manifests, tables of values in docs).
//
// This module's go.mod pins Helm's version (`go tool helm`).
//
//	go test -count=1 ./chart            # make test-chart
//	go test -count=1 ./chart -update    # make manifests: write golden files, manifests, tables; then read `git diff`
//
// Without -count=1, go test would reuse cached results even after the charts have changed, because the charts aren't in
// this module.
package chart
