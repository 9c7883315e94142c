package main

import (
	"bytes"
	"encoding/json"
	"runtime"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	home          = "https://b-com.com/accelerator-device-plugin"
	builder       = home + "/make-release" // the signer's machine
	buildType     = home + "/make-release/v1"
	predicateType = "https://slsa.dev/provenance/v1"
)

// subject returns a subject for a statement.
func subject(name, sha256 string) *intoto.ResourceDescriptor {
	return &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sha256}}
}

// predicate returns the SLSA provenance of everything in the release: the commit, the Go version, and the arguments of
// `make release`. It contains neither a time nor a machine's name, so anyone who builds the release gets the same
// result.
func (r Release) predicate() *provenance.Provenance {
	parameters := map[string]*structpb.Value{"version": structpb.NewStringValue(r.Version)}
	for key, value := range map[string]string{"registry": r.Registry, "url": r.URL} {
		if value != "" {
			parameters[key] = structpb.NewStringValue(value)
		}
	}
	return &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType:          buildType,
			ExternalParameters: &structpb.Struct{Fields: parameters},
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{Uri: "git+" + home, Digest: map[string]string{"gitCommit": r.Revision}},
				{Uri: "pkg:generic/go@" + runtime.Version()[2:], Name: "go"},
			},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: builder}},
	}
}

// statement returns an in-toto statement with the provenance of the subjects.
func (r Release) statement(subjects ...*intoto.ResourceDescriptor) ([]byte, error) {
	p := r.predicate()
	if err := p.Validate(); err != nil {
		return nil, err
	}
	text, err := marshal(p)
	if err != nil {
		return nil, err
	}
	predicate := new(structpb.Struct)
	if err := protojson.Unmarshal(text, predicate); err != nil {
		return nil, err
	}
	s := &intoto.Statement{Type: intoto.StatementTypeUri, Subject: subjects, PredicateType: predicateType, Predicate: predicate}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return marshal(s)
}

// marshal returns a message as JSON. It normalizes protojson's white space, which differs between binaries.
func marshal(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
