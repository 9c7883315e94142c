package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// bill is a bill of materials in the format CycloneDX 1.6, with the few fields that are needed. It
// has neither time nor serial number, so that the same binary gives the same bill.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// SBOM returns the bill of materials of binaries: the modules that `go version -m` shows. The
// first binary is the subject of the bill, the others are components of it.
func SBOM(binaries []Binary, version string) ([]byte, error) {
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1}
	var listed []string
	add := func(c component) {
		if !slices.Contains(listed, c.Ref) {
			listed = append(listed, c.Ref)
			b.Components = append(b.Components, c)
		}
	}
	for i, binary := range binaries {
		c := application(binary, version)
		if i == 0 {
			b.Metadata.Component = c
		} else {
			c.Ref += "#cmd/" + binary.Name // a subpath of the same module
			c.PURL = c.Ref
			add(c)
		}
		add(module("library", "std", strings.TrimPrefix(binary.Info.GoVersion, "go")))
		for _, m := range binary.Info.Deps {
			if own(m) {
				add(module("library", m.Path, version))
				continue
			}
			c := module("library", m.Path, m.Version)
			if m.Sum != "" {
				c.Properties = []property{{"go:sum", m.Sum}}
			}
			add(c)
		}
	}
	out, err := json.MarshalIndent(b, "", "  ")
	return append(out, '\n'), err
}

func application(b Binary, version string) component {
	sum := sha256.Sum256(b.Data)
	c := module("application", b.Info.Main.Path, version)
	c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	for _, s := range b.Info.Settings {
		c.Properties = append(c.Properties, property{"go:build:" + s.Key, s.Value})
	}
	return c
}

// module returns the component of a Go module. Its package URL is of type golang in the purl
// specification.
func module(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
