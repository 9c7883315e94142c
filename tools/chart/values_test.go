package chart_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

// value is an entry of values.yaml with a description. standard is its default, as JSON.
type value struct{ path, standard, meaning string }

// readValues returns the values of the chart, in their order. If a mapping has no description, all values in it must
// have one.
func (c chart) readValues(t *testing.T) []value {
	t.Helper()
	var document yaml.Node
	must.Succeed(t, yaml.Unmarshal([]byte(read(t, c.dir+"/values.yaml")), &document))
	var values []value
	var walk func(prefix string, mapping *yaml.Node)
	walk = func(prefix string, mapping *yaml.Node) {
		for i := 0; i < len(mapping.Content); i += 2 {
			key, node := mapping.Content[i], mapping.Content[i+1]
			path := prefix + key.Value
			switch meaning, described := strings.CutPrefix(key.HeadComment, "## "); {
			case described && !strings.Contains(meaning, "\n"):
				values = append(values, value{path, asJSON(t, node), meaning})
			case key.HeadComment == "" && node.Kind == yaml.MappingNode && len(node.Content) > 0:
				walk(path+".", node)
			default:
				t.Errorf("values.yaml:%d: %s: want one line `## TEXT` above it, found %q", key.Line, path, key.HeadComment)
			}
		}
	}
	walk("", document.Content[0])
	return values
}

func asJSON(t *testing.T, node *yaml.Node) string {
	var v any
	must.Succeed(t, node.Decode(&v))
	return string(must.Value(json.Marshal(v))(t))
}

// TestTable compares the table of values in docs with values.yaml.
func TestTable(t *testing.T) { charts(t, table) }

func table(t *testing.T, c chart) {
	const begin, end = "<!-- values.yaml: `make manifests` writes this table -->\n", "<!-- end -->\n"
	var table strings.Builder
	table.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, v := range c.readValues(t) {
		fmt.Fprintf(&table, "| `%s` | `%s` | %s |\n", v.path, v.standard, v.meaning)
	}
	golden.Section(t, c.docs, begin, end, table.String())
}

// A change of any value changes the manifests.
func TestEveryValueHasAnEffect(t *testing.T) {
	const dra = `api="dra"`
	const programmed = `{"config":{"mode":"region"},"programming":{"enabled":true}}`
	const kept = `bitstreams.references=["example.com/a"]`
	const tested = `test={"resource":"example.com/x","interface":"69528db6eb31577a8c3668f9faa081f6","afu":"d8424dc4"}`
	plugin.everyValueHasAnEffect(t, map[string]change{
		"api":                          {to: `"dra"`},
		"image.repository":             {to: `"example.com/x"`},
		"image.tag":                    {to: `"v9"`},
		"image.digest":                 {to: `"sha256:` + strings.Repeat("0", 64) + `"`},
		"image.pullPolicy":             {to: `"Always"`, beside: `image.repository="example.com/x"`},
		"imagePullSecrets":             {to: `[{"name":"x"}]`},
		"dra.image.repository":         {to: `"example.com/x"`, beside: dra},
		"dra.image.tag":                {to: `"v9"`, beside: dra},
		"dra.image.digest":             {to: `"sha256:` + strings.Repeat("0", 64) + `"`, beside: dra},
		"dra.image.pullPolicy":         {to: `"Always"`, beside: `{"api":"dra","dra":{"image":{"repository":"example.com/x"}}}`},
		"dra.resources":                {to: `{"limits":{"memory":"1Gi"}}`, beside: dra},
		"dra.taintEffect":              {to: `"NoSchedule"`, beside: dra},
		"dra.claimStatus":              {to: `true`, beside: dra},
		"dra.publishBitstreams":        {to: `true`, beside: `{"api":"dra","programming":{"enabled":true}}`},
		"dra.deviceMetadata":           {to: `false`, beside: dra},
		"dra.deviceClass":              {to: `false`, beside: dra},
		"dra.extendedResourceName":     {to: `"example.com/x"`, beside: dra},
		"dra.finishClaims":             {to: `true`},
		"dra.deviceClasses":            {to: `[{"name":"x","match":{"afuId":"` + strings.Repeat("a", 32) + `"}}]`, beside: dra},
		"nameOverride":                 {to: `"x"`},
		"fullnameOverride":             {to: `"x"`},
		"config":                       {to: `{"mode":"pool"}`},
		"nodeAnnotation":               {to: `true`},
		"events":                       {to: `true`},
		"nodeCondition.enabled":        {to: `true`},
		"nodeCondition.type":           {to: `"example.com/X"`, beside: `nodeCondition.enabled=true`},
		"kubelet.rootDir":              {to: `"/x"`},
		"kubelet.devicePluginDir":      {to: `"/x"`},
		"stateDir":                     {to: `""`},
		"simulatedNode":                {to: `"/x"`},
		"serviceAccount.create":        {to: `false`, beside: `serviceAccount.name="x"`},
		"serviceAccount.name":          {to: `"x"`},
		"serviceAccount.annotations":   {to: `{"a":"b"}`},
		"seLinuxType":                  {to: `"x"`},
		"securityContextConstraints":   {to: `true`},
		"networkPolicy":                {to: `false`},
		"priorityClassName":            {to: `"x"`},
		"tolerations":                  {to: `[]`},
		"nodeSelector":                 {to: `{"a":"b"}`},
		"nodeSelectorTerms":            {to: `[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]`},
		"nodeFeatureDiscovery.rule":    {to: `true`},
		"nodeFeatureDiscovery.enabled": {to: `true`},
		"nodeFeatureDiscovery.labels":  {to: `["x"]`, beside: `nodeFeatureDiscovery.enabled=true`},
		"resources":                    {to: `{"limits":{"memory":"1Gi"}}`},
		"updateStrategy":               {to: `{"type":"OnDelete"}`},
		"minReadySeconds":              {to: `0`},
		"podLabels":                    {to: `{"a":"b"}`},
		"podAnnotations":               {to: `{"a":"b"}`},
		"podMonitor.enabled":           {to: `true`},
		"podMonitor.labels":            {to: `{"a":"b"}`, beside: `podMonitor.enabled=true`},
		"podMonitor.interval":          {to: `"15s"`, beside: `podMonitor.enabled=true`},
		"scrapers":                     {to: `[{"podSelector":{}}]`},
		"prometheusRule.enabled":       {to: `true`},
		"prometheusRule.labels":        {to: `{"a":"b"}`, beside: `prometheusRule.enabled=true`},
		"prometheusRule.docsURL":       {to: `"https://example.com/docs"`, beside: `prometheusRule.enabled=true`},
		"dashboard.enabled":            {to: `true`},
		"dashboard.labels":             {to: `{"a":"b"}`, beside: `dashboard.enabled=true`},
		"programming.enabled":          {to: `true`, beside: `config={"mode":"region"}`},
		"programming.always":           {to: `true`, beside: programmed},
		"programming.maxTemperature":   {to: `85`, beside: programmed},
		"programming.hostDir":          {to: `"/x"`, beside: programmed},
		"programming.store":            {to: `"/x"`, beside: programmed},
		"programming.seLinuxType":      {to: `"x"`, beside: programmed},
		"bitstreams.references":        {to: `["example.com/a"]`},
		"bitstreams.interval":          {to: `"1h"`, beside: kept},
		"bitstreams.pullSecret":        {to: `"x"`, beside: kept},
		"bitstreams.ca":                {to: `"-----BEGIN CERTIFICATE-----\nx"`, beside: kept},
		"bitstreams.keys":              {to: `"-----BEGIN PUBLIC KEY-----\nx"`, beside: kept},
		"bitstreams.proxy":             {to: `"http://proxy.example.com"`, beside: kept},
		"bitstreams.noProxy":           {to: `"example.com"`, beside: kept},
		"bitstreams.plainHTTP":         {to: `true`, beside: kept},
		"bitstreams.minFree":           {to: `0`, beside: kept},
		"bitstreams.gc.age":            {to: `"24h"`, beside: kept},
		"bitstreams.gc.maxMiB":         {to: `1000`, beside: kept},
		"bitstreams.image.repository":  {to: `"example.com/x"`, beside: kept},
		"bitstreams.image.tag":         {to: `"v9"`, beside: kept},
		"bitstreams.image.digest":      {to: `"sha256:` + strings.Repeat("0", 64) + `"`, beside: kept},
		"bitstreams.image.pullPolicy":  {to: `"Always"`, beside: `bitstreams={"references":["example.com/a"],"image":{"repository":"example.com/x"}}`},
		"bitstreams.resources":         {to: `{"limits":{"memory":"1Gi"}}`, beside: kept},
		"test.resource":                {to: `"example.com/x"`},
		"test.interface":               {to: `"` + strings.Repeat("a", 32) + `"`, beside: tested},
		"test.afu":                     {to: `"aaaaaaaa"`, beside: tested},
		"test.deviceClass":             {to: `"x"`, beside: dra},
	})
}

// change is another value of a key, in JSON, and other values that are set with it.
type change struct{ to, beside string }

// everyValueHasAnEffect renders the chart again for each value, with this value changed.
func (c chart) everyValueHasAnEffect(t *testing.T, changed map[string]change) {
	rendered := map[string]string{} // by the values that are set in addition
	for _, v := range c.readValues(t) {
		to, ok := changed[v.path]
		if !ok {
			t.Errorf("%s: found no change of this value, want one in the test", v.path)
			continue
		}
		delete(changed, v.path)
		beside := to.beside
		if beside == "" {
			beside = "global={}"
		}
		before, ok := rendered[beside]
		if !ok {
			before = c.rendered(t, "", "--set-json", beside)
			rendered[beside] = before
		}
		t.Run(v.path, func(t *testing.T) {
			t.Parallel()
			if before == c.rendered(t, "", "--set-json", beside, "--set-json", v.path+"="+to.to) {
				t.Error("the change has no effect on the manifests")
			}
		})
	}
	for path := range changed {
		t.Errorf("%s: found in the test, want it in values.yaml", path)
	}
}
