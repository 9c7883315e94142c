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
	flag.Func("binary", "static binary; may be repeated, the image runs the first one", func(file string) error {
		a.binaries = append(a.binaries, file)
		return nil
	})
	flag.StringVar(&a.tree, "tree", ".", "work tree of this project")
	flag.StringVar(&a.image.Name, "name", "", "name of the image")
	flag.StringVar(&a.image.Description, "description", "", "short description of the image")
	flag.StringVar(&a.image.Licence, "licence", "", "licence of the whole image, an SPDX expression")
	flag.BoolVar(&a.source, "source", false, "add the source code to the image, as the GPL requires")
	flag.StringVar(&a.image.Version, "version", "", "version; the tag of the image contains _ for +")
	flag.StringVar(&a.image.Revision, "revision", "", "commit that the binaries were built from")
	flag.Int64Var(&a.created, "created", 0, "time of that commit, in seconds since 1970, for all times in the image")
	flag.StringVar(&a.out, "out", "", "archive of the image to write")
	flag.StringVar(&a.sbom, "sbom", "", "bill of materials to write")
	flag.StringVar(&a.userArchive, "user-archive", "", "write a .tar.gz of the binaries, their source and licences, for machines without containers")
	flag.Func("file", "further file of the -user-archive; may be repeated", func(file string) error {
		a.files = append(a.files, file)
		return nil
	})
	flag.StringVar(&a.sourceArchive, "source-archive", "", "write a .tar.gz of the source")
	flag.StringVar(&a.root, "root", "", "directory to which the files of the image are also written, for the Dockerfile")
	flag.Parse()
	image := a.image.Name != "" && a.image.Licence != "" && a.image.Version != "" && a.sbom != ""
	if len(a.binaries) == 0 || a.out == "" && a.userArchive == "" || a.out != "" && !image ||
		a.source && a.image.Version == "" || a.sourceArchive != "" && !a.source || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := a.run(); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

type arguments struct {
	binaries, files            []string
	tree                       string
	image                      Image // only the fields set by arguments
	source                     bool
	created                    int64
	out, sbom, root            string
	userArchive, sourceArchive string
}

func (a arguments) run() error {
	var binaries []Binary
	var modules []string
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
		found, err := Licences(a.tree, info)
		if err != nil {
			return err
		}
		maps.Copy(licences, found)
		modules = append(modules, moduleBelow(info))
		binaries = append(binaries, Binary{filepath.Base(file), data, info})
	}
	img := a.image
	img.Created = time.Unix(a.created, 0).UTC()
	var source []byte
	if a.source {
		var err error
		if source, err = Source(a.tree, modules, img.Version, img.Created); err != nil {
			return err
		}
	} else if where := copyleft(licences); where != "" {
		return fmt.Errorf("%s: found a GNU licence, want -source", where)
	}
	if a.sourceArchive != "" {
		if err := os.WriteFile(a.sourceArchive, source, 0o644); err != nil {
			return err
		}
	}
	if a.userArchive != "" {
		if err := a.writeUserArchive(binaries, source, licences, img.Created); err != nil {
			return err
		}
	}
	if a.out == "" {
		return nil
	}
	img.Arch = setting(binaries[0].Info, "GOARCH")
	img.Entrypoint = "/usr/bin/" + binaries[0].Name
	img.Files = Rootfs(binaries, source, licences)
	bill, err := SBOM(binaries, img.Version)
	if err != nil {
		return err
	}
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
		if err := img.Files.Write(a.root); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %s:%s %s %.1f MB\n", a.out, img.Name, img.tag(), digest, float64(len(archive))/1e6)
	return nil
}

// setting returns a build setting, such as GOARCH, or "" if it isn't set.
func setting(info *buildinfo.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
