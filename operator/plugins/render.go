package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/deploy/helm"
	"b-com.com/accelerator-device-plugin/offer/names"
	"b-com.com/accelerator-device-plugin/operator/api/v1"
)

const (
	chartName = "accelerator-device-plugin"
	intelName = "intel-fpga-plugin" // the last part of the path of Intel's image

	// debugLevel is the lowest logLevel that means debug. Intel's plugin uses klog, where debugging starts at level 4.
	debugLevel = 4

	// manager is the objects' field manager, and the value of their managed-by label.
	manager = "accelerator-operator"

	// nodeCondition is the only node condition type that the policy in the operator's chart allows.
	nodeCondition = "accelerator.b-com.com/CardsHealthy"

	labelManagedBy = "app.kubernetes.io/managed-by"
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
)

// Settings are the settings of a [Renderer].
type Settings struct {
	Version   string // the operator's version, which is also the tag of images that have neither a tag nor a digest
	Image     string // REPOSITORY[:TAG][@DIGEST]; used if spec.image is empty or refers to Intel's image
	Namespace string // the objects' namespace
}

// Renderer renders the device plugin's chart. It is safe for concurrent use.
type Renderer struct {
	settings Settings
	chart    *chart.Chart
	cluster  *common.Capabilities
}

// NewRenderer returns a Renderer for the embedded chart.
func NewRenderer(s Settings) (*Renderer, error) {
	var files []*archive.BufferedFile
	err := fs.WalkDir(helm.DevicePlugin, chartName, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := helm.DevicePlugin.ReadFile(name)
		files = append(files, &archive.BufferedFile{Name: strings.TrimPrefix(name, chartName+"/"), Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", chartName, err)
	}
	c.Metadata.Version, c.Metadata.AppVersion = s.Version, s.Version
	// Use the same registry for the bitstreams image, because all of a release's images are in the same registry.
	if repository, _, _ := splitImage(s.Image); path.Base(repository) == chartName {
		image := c.Values["bitstreams"].(map[string]any)["image"].(map[string]any)
		image["repository"] = path.Join(path.Dir(repository), image["repository"].(string))
	}
	cluster := common.DefaultCapabilities.Copy()
	cluster.KubeVersion = common.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"} // the operator's chart requires it
	return &Renderer{s, c, cluster}, nil
}

// Render returns the objects that install p's plugin, in the order in which they must be applied. If the chart rejects
// the spec, the error contains the rejected value's key.
func (r *Renderer) Render(ctx context.Context, p *v1.FpgaDevicePlugin) ([]*unstructured.Unstructured, error) {
	values, err := r.values(p)
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: p.Name, Namespace: r.settings.Namespace, Revision: 1, IsInstall: true}
	top, err := util.ToRenderValues(r.chart, values, options, r.cluster)
	if err != nil {
		return nil, refusal(err)
	}
	files, err := engine.Engine{}.RenderWithContext(ctx, r.chart, top)
	if err != nil {
		return nil, refusal(err)
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, "/NOTES.txt") })
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder) // leaves out hooks
	if err != nil {
		return nil, refusal(err)
	}
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(m.Content), &u.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		// The policy for node conditions is part of the operator's chart, and applies to all plugins' accounts. The
		// operator must not be able to write policies, because then no policy could limit it.
		if strings.HasPrefix(u.GetKind(), "ValidatingAdmissionPolicy") {
			continue
		}
		if err := normalize(u); err != nil {
			return nil, fmt.Errorf("values: %s: %w", u.GetKind(), err)
		}
		labels := u.GetLabels()
		labels[labelManagedBy] = manager
		u.SetLabels(labels)
		u.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(p, v1.GroupVersion.WithKind(v1.KindFpgaDevicePlugin))})
		objects = append(objects, u)
	}
	return objects, nil
}

// normalize removes empty lists and maps, because the API server wouldn't store them. If they were left in, each apply
// would be a change, and the controller's watch would trigger the next one.
func normalize(u *unstructured.Unstructured) error {
	typed, err := scheme.Scheme.New(u.GroupVersionKind())
	if runtime.IsNotRegisteredError(err) {
		return nil // a CRD's kind, whose objects are stored unchanged
	} else if err != nil {
		return err
	}
	const strict = true // treat unknown fields as errors
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, typed, strict); err != nil {
		return err
	}
	stored, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return err
	}
	leaveOut(u.Object, stored)
	return nil
}

// leaveOut removes an object's empty lists and maps if the stored object doesn't have them. It keeps other fields even
// if they are false, so that applying them undoes others' changes.
func leaveOut(object, stored any) {
	switch o := object.(type) {
	case map[string]any:
		s, _ := stored.(map[string]any)
		for key, value := range o {
			list, isList := value.([]any)
			table, isMap := value.(map[string]any)
			if _, ok := s[key]; !ok && (isList && len(list) == 0 || isMap && len(table) == 0) {
				delete(o, key)
				continue
			}
			leaveOut(value, s[key])
		}
	case []any:
		s, _ := stored.([]any)
		for i := range min(len(o), len(s)) {
			leaveOut(o[i], s[i])
		}
	}
}

// values returns the chart values for p: its fields' values, overridden by spec.values.
func (r *Renderer) values(p *v1.FpgaDevicePlugin) (map[string]any, error) {
	values, err := specValues(p)
	if err != nil {
		return nil, err
	}
	// Don't allow these values, because the controller relies on the chart's names and labels.
	for _, key := range []string{"nameOverride", "fullnameOverride"} {
		if _, ok := values[key]; ok {
			return nil, fmt.Errorf("spec.values.%s: found a value, want none: the objects have the name of the FpgaDevicePlugin", key)
		}
	}
	if a, ok := values["serviceAccount"].(map[string]any); ok {
		if name, _ := a["name"].(string); name != "" && !strings.Contains(name, chartName) {
			return nil, fmt.Errorf("spec.values.serviceAccount.name: found %q, want a name that contains %s: the policies of the operator allow no other", name, chartName)
		}
	}
	if api, ok := values["api"]; ok && api != "devicePlugin" {
		return nil, fmt.Errorf("spec.values.api: found %q, want devicePlugin: install the DRA driver with Helm", fmt.Sprint(api))
	}
	if dra, ok := values["dra"].(map[string]any); ok && dra["finishClaims"] == true {
		return nil, errors.New("spec.values.dra.finishClaims: found true, want false: install the DRA driver with Helm")
	}
	nfd, _ := values["nodeFeatureDiscovery"].(map[string]any)
	for key, value := range map[string]any{"securityContextConstraints": values["securityContextConstraints"], "nodeFeatureDiscovery.rule": nfd["rule"]} {
		if value == true {
			return nil, fmt.Errorf("spec.values.%s: found true, want false: the operator has no right to create this object: create it with helm template", key)
		}
	}
	if c, ok := values["nodeCondition"].(map[string]any); ok {
		if kind, ok := c["type"]; ok && kind != nodeCondition {
			return nil, fmt.Errorf("spec.values.nodeCondition.type: found %q, want %s: the policy of the operator allows no other", fmt.Sprint(kind), nodeCondition)
		}
	}
	config := map[string]any{"mode": "af"}
	fields := map[string]any{"config": config, "image": r.image(p.Spec.Image)}
	if p.Spec.Mode != "" {
		config["mode"] = p.Spec.Mode
	}
	if p.Spec.Mode == "region" {
		// In region mode, install the hook too, as Intel's plugin does.
		fields["programming"] = map[string]any{"enabled": true}
	}
	if p.Spec.LogLevel >= debugLevel {
		config["logLevel"] = "debug"
	}
	if len(p.Spec.NodeSelector) > 0 {
		fields["nodeSelector"] = p.Spec.NodeSelector
	}
	if len(p.Spec.Tolerations) > 0 {
		fields["tolerations"] = p.Spec.Tolerations
	}
	// Convert fields by way of JSON, because Helm's functions only accept maps of type map[string]any.
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, err
	}
	values = util.MergeTables(values, plain)
	return values, readable(values)
}

// readable returns an error if a string in values contains a character that is special in YAML. The chart indents
// strings only after line feeds, but YAML has other characters that end a line, and Helm's toYaml returns an empty
// string if there is a control character.
func readable(values map[string]any) error {
	raw, err := json.Marshal(values)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		text, _ := token.(string)
		if strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsGraphic(c) && c != '\n' && c != '\t' }) {
			return fmt.Errorf("values: found %+q, want only letters, marks, spaces and line feeds", short(text))
		}
	}
}

// specValues returns spec.values.
func specValues(p *v1.FpgaDevicePlugin) (map[string]any, error) {
	if p.Spec.Values == nil {
		return map[string]any{}, nil
	}
	// Decode the values as JSON, because the same text may be invalid or mean something else in YAML. UseNumber keeps
	// numbers as they are written.
	d := json.NewDecoder(bytes.NewReader(p.Spec.Values.Raw))
	d.UseNumber()
	values := map[string]any{}
	if err := d.Decode(&values); err != nil {
		return nil, fmt.Errorf("spec.values: %w", err)
	}
	return values, nil
}

// image returns the chart values for an image. If reference is empty or refers to Intel's image, it returns the
// operator's default image.
func (r *Renderer) image(reference string) map[string]any {
	if repository, _, _ := splitImage(reference); repository == "" || isIntels(repository) {
		reference = r.settings.Image
	}
	repository, tag, digest := splitImage(reference)
	return map[string]any{"repository": repository, "tag": tag, "digest": digest}
}

// splitImage splits REPOSITORY[:TAG][@DIGEST] into its parts.
func splitImage(reference string) (repository, tag, digest string) {
	repository, digest, _ = strings.Cut(reference, "@")
	if colon := strings.LastIndexByte(repository, ':'); colon > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:colon], repository[colon+1:]
	}
	return repository, tag, digest
}

// isIntels reports whether a repository's path ends with intelName.
func isIntels(repository string) bool {
	return path.Base(repository) == intelName
}

// refusal rewrites a Helm error as a single line, without the introduction and file names.
func refusal(err error) error {
	text := err.Error()
	// An error from the schema consists of an introduction, the chart's name, and one line per key.
	if strings.Contains(text, "\n- at '") {
		var lines []string
		for line := range strings.Lines(text) {
			if line, ok := strings.CutPrefix(strings.TrimSpace(line), "- at "); ok {
				// for example '/image/tag': got number, want string
				pointer, problem, _ := strings.Cut(strings.TrimPrefix(line, "'"), "': ")
				lines = append(lines, "values"+strings.NewReplacer("/", ".", "~1", "/", "~0", "~").Replace(pointer)+": "+problem)
			}
		}
		return errors.New(strings.Join(lines, "; "))
	}
	// An error from a template looks like this: execution error at (FILE:LINE:COLUMN): SENTENCE
	if place, sentence, ok := strings.Cut(text, "): "); ok && strings.HasPrefix(place, "execution error at (") {
		return errors.New("values: " + sentence)
	}
	return fmt.Errorf("values: %w", err)
}

// nodeSelector returns the labels that p's nodes must have, even if the chart rejects the spec.
func nodeSelector(p *v1.FpgaDevicePlugin) map[string]string {
	values, err := specValues(p)
	override, ok := values["nodeSelector"]
	if err != nil || !ok {
		return p.Spec.NodeSelector
	}
	labels := map[string]string{}
	if override != nil { // null removes all labels
		maps.Copy(labels, p.Spec.NodeSelector)
	}
	more, _ := override.(map[string]any)
	for key, value := range more {
		if text, ok := value.(string); ok { // the chart rejects other types
			labels[key] = text
		}
	}
	return labels
}

// overlap reports whether a node can match both a selector in a and a selector in b.
func overlap(a, b []map[string]string) bool {
	for _, a := range a {
		if slices.ContainsFunc(b, func(b map[string]string) bool { return !disjoint(a, b) }) {
			return true
		}
	}
	return false
}

// disjoint reports whether no node can match both selectors.
func disjoint(a, b map[string]string) bool {
	for key, value := range a {
		if other, ok := b[key]; ok && other != value {
			return true
		}
	}
	return false
}

// offers returns a function that reports whether a plugin with these values could advertise a resource.
func (r *Renderer) offers(values map[string]any) (func(resource string) bool, error) {
	all, err := util.CoalesceValues(r.chart, values)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	var v struct {
		Config struct {
			Mode, ResourceName, ResourceNamespace string
			Resources                             []struct{ Name string }
		}
		NodeAnnotation bool
	}
	v.Config.ResourceName, v.Config.ResourceNamespace = names.DefaultResource, names.DefaultDomain
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	c, named := v.Config, map[string]bool{}
	named[c.ResourceName] = c.Mode == "single" || c.Mode == "pool"
	for _, rule := range c.Resources {
		named[rule.Name] = true
	}
	return func(resource string) bool {
		name, ok := strings.CutPrefix(resource, c.ResourceNamespace+"/")
		return named[resource] || ok && (names.OfMode(c.Mode, name) || v.NodeAnnotation && names.Ours(name))
	}, nil
}
