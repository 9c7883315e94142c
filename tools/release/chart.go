package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	helm "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"
	"sigs.k8s.io/yaml"
)

// values matches a line in values.yaml with the repository of one of this project's images.
var values = regexp.MustCompile(`(?m)^( +(?:repository|image): )(accelerator-[a-z-]+)$`)

// kinds maps the changelog's sections to kinds of changes on Artifact Hub.
var kinds = map[string]string{"Added": "added", "Changed": "changed", "Upgrade notes": "changed", "Deprecated": "deprecated", "Removed": "removed", "Fixed": "fixed", "Security": "security"}

// tag returns the tag for images and charts in a registry.
func (r Release) tag() string { return strings.ReplaceAll(r.Version, "+", "_") }

// image returns an image's reference without the tag.
func (r Release) image(name string) string {
	if r.Registry == "" {
		return name
	}
	return r.Registry + "/" + name
}

// WriteChart packages a chart and writes it to the Out directory.
func (r Release) WriteChart(name string) error {
	chart, err := r.chart(name)
	if err != nil {
		return err
	}
	_, err = util.Save(chart, r.Out)
	return err
}

// chart returns a chart from deploy/helm with the release's version, image names and annotations.
func (r Release) chart(name string) (*helm.Chart, error) {
	chart, err := loader.Load(filepath.Join(r.Tree, "deploy", "helm", name))
	if err != nil {
		return nil, err
	}
	type image struct {
		Name      string   `json:"name"`
		Image     string   `json:"image"`
		Platforms []string `json:"platforms"`
	}
	var images []image
	for _, f := range chart.Raw {
		if f.Name != util.ValuesfileName {
			continue
		}
		for _, m := range values.FindAllSubmatch(f.Data, -1) {
			name := string(m[2])
			images = append(images, image{name, r.image(name) + ":" + r.tag(), []string{"linux/amd64", "linux/arm64"}})
		}
		f.Data = values.ReplaceAll(f.Data, []byte("${1}"+r.image("$2")))
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%s: values.yaml: found no repository of an image of this project, want one such as %q", name, "  repository: "+name)
	}
	type change struct {
		Kind        string `json:"kind"`
		Description string `json:"description"`
	}
	var changes []change
	sections, err := r.changes()
	if err != nil {
		return nil, err
	}
	for _, s := range sections {
		for _, entry := range s.Entries {
			changes = append(changes, change{cmp.Or(kinds[s.Title], "changed"), summary(entry)})
		}
	}
	m := chart.Metadata
	m.Version, m.AppVersion = r.Version, r.Version
	if m.Annotations == nil {
		m.Annotations = make(map[string]string)
	}
	m.Annotations["artifacthub.io/prerelease"] = fmt.Sprint(strings.ContainsAny(r.Version, "-+"))
	for key, value := range map[string]any{"images": images, "changes": changes} {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		m.Annotations["artifacthub.io/"+key] = string(text)
	}
	chart.StampModTimes(r.Created)
	return chart, os.MkdirAll(r.Out, 0o755)
}
