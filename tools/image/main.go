package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"
)

func main() {
	var a arguments
	flag.Func("binary", "a static binary; the image runs the first one", func(file string) error {
		a.binaries = append(a.binaries, file)
		return nil
	})
	flag.StringVar(&a.module, "module", ".", "directory of the module that they were built from")
	flag.StringVar(&a.version, "version", "", "version: the image's tag")
	flag.StringVar(&a.revision, "revision", "", "commit that they were built from")
	flag.Int64Var(&a.created, "created", 0, "time of that commit, in seconds since 1970: all times in the image")
	flag.StringVar(&a.out, "out", "", "archive to write")
	flag.StringVar(&a.sbom, "sbom", "", "bill of materials to write")
	flag.StringVar(&a.root, "root", "", "directory that gets the files of the image, too, for the Dockerfile")
	flag.Parse()
	if len(a.binaries) == 0 || a.version == "" || a.out == "" || a.sbom == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := a.run(); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

type arguments struct {
	binaries                  []string
	module, version, revision string
	created                   int64
	out, sbom, root           string
}

func (a arguments) run() error {
	var binaries []Binary
	licences := make(map[string][]byte)
	for _, file := range a.binaries {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return err
		}
		found, err := Licences(a.module, info)
		if err != nil {
			return err
		}
		maps.Copy(licences, found)
		binaries = append(binaries, Binary{filepath.Base(file), data, info})
	}
	created := time.Unix(a.created, 0).UTC()
	source, err := Source(a.module, a.version, created)
	if err != nil {
		return err
	}
	files := Rootfs(binaries, source, licences)
	bill, err := SBOM(binaries, a.version)
	if err != nil {
		return err
	}
	img := Image{Version: a.version, Revision: a.revision, Created: created, Arch: setting(binaries[0].Info, "GOARCH"), Files: files}
	archive, digest, err := img.Archive()
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.sbom, bill, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(a.out, archive, 0o644); err != nil {
		return err
	}
	if a.root != "" {
		if err := files.Write(a.root); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %s:%s %s %.1f MB\n", a.out, name, a.version, digest, float64(len(archive))/1e6)
	return nil
}

// setting is one of the build's, such as GOARCH; "" where it is not known.
func setting(info *buildinfo.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
