package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// find searches the files of the tree that match a glob. It returns what the group of the pattern matches in them.
func find(t *testing.T, glob, pattern string) (all []string) {
	t.Helper()
	unique := make(map[string]bool)
	for _, file := range must.Value(filepath.Glob("../../" + glob))(t) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(read(t, file)), -1) {
			unique[m[1]] = true
		}
	}
	if len(unique) == 0 {
		t.Fatalf("%s: found no match of %s", glob, pattern)
	}
	return slices.Sorted(maps.Keys(unique))
}

// The table of supported versions lists what the charts refuse and what the rigs run.
func TestSupportedVersions(t *testing.T) {
	page := string(read(t, "../../docs/releases.md"))
	_, page, _ = strings.Cut(page, "\n## Supported versions\n")
	rows := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(page, -1) {
		rows[m[1]] = m[2]
	}
	newer := func(glob, pattern string) string {
		return strings.Join(find(t, glob, pattern), ", ") + " and newer"
	}
	listed := func(glob, pattern string) string { return strings.Join(find(t, glob, pattern), ", ") }
	const charts = "deploy/helm/accelerator-"
	validate := charts + "device-plugin/templates/validate.yaml"
	delete(rows, "program")
	delete(rows, "---")
	compare.Values(t, "rows of docs/releases.md", map[string]string{
		"Kubernetes, for the device plugin":                          newer(charts+"device-plugin/Chart.yaml", `kubeVersion: ">= (\d+\.\d+)\.0-0"`),
		"Kubernetes, for `nodeCondition` and `accelerator-operator`": newer(charts+"operator/Chart.yaml", `kubeVersion: ">= (\d+\.\d+)\.0-0"`),
		"Kubernetes, for `api: dra`":                                 newer(validate, `found with Kubernetes %s, want (\d+\.\d+) or newer, which serves resource`),
		"Kubernetes, a real cluster":                                 listed("test/e2e/build/kube/*.mod", `k8s.io/kubernetes v(\S+)`),
		"Kubernetes, the kubelet's device manager":                   listed("test/kubelet/run.sh", `(?m)^build (\d+\.\d+)`),
		"Linux, with the kernel's own drivers":                       listed("test/kernel/kernel.sh", `(?m)payload.* # (\d+\.\d+)$`),
		"Helm":                                                       listed("tools/go.mod", `helm.sh/helm/v4 v(\S+)`),
		"cert-manager":                                               listed("test/e2e/certmanager/go.mod", `cert-manager/cert-manager v(\S+)`),
	}, rows)
	condition := find(t, validate, `nodeCondition.enabled: found true with Kubernetes %s, want (\d+\.\d+) or newer`)
	compare.Values(t, "nodeCondition, which has the row of the operator", find(t, charts+"operator/Chart.yaml", `kubeVersion: ">= (\d+\.\d+)\.0-0"`), condition)
	claimStatus := find(t, validate, `dra.claimStatus: found true with Kubernetes %s, want (\d+\.\d+) or newer`)
	compare.Values(t, "claimStatus, as docs/releases.md says", []string{"1.36"}, claimStatus)
}

// release-check builds with the version of Go that the page promises to fetch, which must be able to build all modules.
func TestToolchain(t *testing.T) {
	toolchain := find(t, "Makefile", `GOTOOLCHAIN = go(\S+)`)[0]
	for _, module := range []string{"", "dra/", "operator/", "kubectl/", "registry/", "tools/"} {
		if wants := find(t, module+"go.mod", `(?m)^go (\S+)$`)[0]; version(t, wants) > version(t, toolchain) {
			t.Errorf("Makefile: GOTOOLCHAIN is go%s, want at least that of %sgo.mod, %s", toolchain, module, wants)
		}
	}
}

// version returns a number that grows with a version of Go.
func version(t *testing.T, s string) (n int) {
	t.Helper()
	var major, minor, patch int
	must.Value(fmt.Sscanf(s, "%d.%d.%d", &major, &minor, &patch))(t)
	return major*1_000_000 + minor*1000 + patch
}
