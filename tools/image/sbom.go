package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// A bill of materials as of CycloneDX 1.6, of which these are the few fields that
// are needed. It has neither time nor serial number, so that it is the same for
// the same binary.
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

// SBOM lists what a binary was made of: what `go version -m` shows.
func SBOM(info *buildinfo.BuildInfo, version string, binary []byte) ([]byte, error) {
	sum := sha256.Sum256(binary)
	main := module("application", info.Main.Path, version)
	main.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
	}
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{main}}
	b.Components = append(b.Components, module("library", "std", strings.TrimPrefix(info.GoVersion, "go")))
	for _, m := range info.Deps {
		c := module("library", m.Path, m.Version)
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		b.Components = append(b.Components, c)
	}
	out, err := json.MarshalIndent(b, "", "  ")
	return append(out, '\n'), err
}

// module is one of Go; its package URL is as of the purl specification's type
// golang.
func module(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
