package dra

import (
	_ "github.com/spf13/cobra"
	_ "golang.org/x/sync/errgroup"
	_ "k8s.io/client-go/kubernetes/fake"
	_ "k8s.io/dynamic-resource-allocation/deviceattribute"
	_ "k8s.io/dynamic-resource-allocation/resourceslice"
)
