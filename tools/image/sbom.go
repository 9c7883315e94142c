package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// SBOM returns the bill of materials for binaries, in CycloneDX format. It lists the modules that `go version -m`
// shows. The bill's subject is the first binary; the others are components. The bill is reproducible, because it
// contains neither a time nor a serial number.
func SBOM(binaries []Binary, version string) ([]byte, error) {
	bill := cyclonedx.NewBOM()
	var components []cyclonedx.Component
	add := func(c cyclonedx.Component) {
		if !slices.ContainsFunc(components, func(other cyclonedx.Component) bool { return other.BOMRef == c.BOMRef }) {
			components = append(components, c)
		}
	}
	for i, binary := range binaries {
		c := application(binary, version)
		if i == 0 {
			bill.Metadata = &cyclonedx.Metadata{Component: &c}
		} else {
			c.BOMRef += "#cmd/" + binary.Name // a subpath of the module
			c.PackageURL = c.BOMRef
			add(c)
		}
		add(module(cyclonedx.ComponentTypeLibrary, "std", strings.TrimPrefix(binary.Info.GoVersion, "go")))
		for _, m := range binary.Info.Deps {
			if own(m) {
				add(module(cyclonedx.ComponentTypeLibrary, m.Path, version))
				continue
			}
			c := module(cyclonedx.ComponentTypeLibrary, m.Path, m.Version)
			if m.Sum != "" {
				c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
			}
			add(c)
		}
	}
	bill.Components = &components
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bill, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

func application(b Binary, version string) cyclonedx.Component {
	sum := sha256.Sum256(b.Data)
	c := module(cyclonedx.ComponentTypeApplication, b.Info.Main.Path, version)
	c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	var settings []cyclonedx.Property
	for _, s := range b.Info.Settings {
		settings = append(settings, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	c.Properties = &settings
	return c
}

// module returns the component for a Go module. Its package URL has purl's golang type.
func module(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{Type: kind, BOMRef: purl, Name: path, Version: version, PackageURL: purl}
}
