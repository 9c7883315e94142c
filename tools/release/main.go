package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var r Release
	var check bool
	var chart string
	var created int64
	flag.BoolVar(&check, "check", false, "only check that the version can be built from this tree")
	flag.StringVar(&chart, "chart", "", "only package this chart, the name of a directory in deploy/helm")
	flag.StringVar(&r.Version, "version", "", "version of the release, such as 0.3.0")
	flag.StringVar(&r.Registry, "registry", "", "registry and path of the images, for the values of the charts; empty: images are imported on the nodes")
	flag.StringVar(&r.URL, "url", "", "https address of the directory where the files will be, which the manifest of krew contains")
	flag.StringVar(&r.Revision, "revision", "", "commit of the tree")
	flag.Int64Var(&created, "created", 0, "time of that commit, in seconds since 1970, for all times in the release")
	flag.StringVar(&r.Tree, "tree", ".", "work tree of this project")
	flag.StringVar(&r.Dist, "dist", "", "directory with the archives and bills of materials of make image")
	flag.StringVar(&r.Out, "out", "", "directory of the release")
	flag.Parse()
	r.Created = time.Unix(created, 0).UTC()

	var err error
	switch {
	case r.Version == "" || flag.NArg() > 0 || !check && r.Out == "" || !check && chart == "" && (r.Dist == "" || r.Revision == ""):
		flag.Usage()
		os.Exit(2)
	case check:
		err = r.Check()
	case chart != "":
		err = r.WriteChart(chart)
	default:
		err = r.Pack(context.Background())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}
