package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// overrides is the name of the ConfigMap that contains the user's overrides (see docs/upgrade.md).
const overrides = release + "-accelerator-device-plugin-overrides"

// settingsInService shows that a node's settings can be changed without a restart, and that Helm doesn't overwrite
// them.
func settingsInService(s *scene) {
	s.begin(first, second)
	s.configApplied()
	s.cleanups = append(s.cleanups, func() { s.kubectlSystem("delete", "configmap", "--ignore-not-found", overrides) })

	s.step("kubectl create configmap: a card of this node is excluded, without a restart")
	daemon := s.daemon().Name
	file := filepath.Join(s.out, "overrides.yaml")
	s.check(os.WriteFile(file, []byte("nodes:\n  "+cluster.NodeName+":\n    exclude:\n    - "+firstID+"\n  another:\n    exclude:\n    - "+secondID+"\n"), 0o644))
	s.kubectlSystem("create", "configmap", overrides, "--from-file=overrides.yaml="+file)
	s.syncConfigMaps()
	s.hasReasons(map[string][]string{firstID: {"excluded"}})
	s.awaitAdvertised(s.resource, 2, 1)
	s.configApplied()
	s.sameDaemon(daemon)

	s.step("kubectl patch: the other card is excluded instead")
	s.patchOverrides("nodes: {" + cluster.NodeName + ": {exclude: [" + secondID + "]}}")
	s.syncConfigMaps()
	s.hasReasons(map[string][]string{secondID: {"excluded"}})
	s.configApplied()
	s.sameDaemon(daemon)
	const version = "jsonpath={.metadata.uid} {.metadata.resourceVersion} {.data}"
	before := s.kubectlSystem("get", "configmap", overrides, "--output", version)

	for _, tt := range []struct {
		name string
		args []string
	}{
		{"upgrade", []string{s.chart(), "--reset-then-reuse-values", "--set", "config.logLevel=debug"}},
		{"rollback", []string{"1"}},
		{"upgrade", []string{s.chart(), "--reset-then-reuse-values", "--set", "config.flapLimit=4", "--force-conflicts"}},
	} {
		s.step("helm %s does not change the ConfigMap: %s", tt.name, tt.args[len(tt.args)-1])
		old := s.daemon().Name
		s.mustHelm(tt.name, append(tt.args, "--wait", "--timeout", "1m")...)
		s.replaces(old)
		same(s, "overrides", s.kubectlSystem("get", "configmap", overrides, "--output", version), before)
		s.hasReasons(map[string][]string{secondID: {"excluded"}})
		s.configApplied()
	}

	s.step("kubectl patch with an error: refused, the settings stay")
	daemon = s.daemon().Name
	hash := s.hash()
	s.patchOverrides("nodes: {" + cluster.NodeName + ": {exclude: [01:00.9]}}")
	s.syncConfigMaps()
	s.logged("config.refused", line{"level": "error"})
	header, _, _ := strings.Cut(s.exec("devices"), "\n")
	for _, words := range []string{"settings " + hash, "refused", "overrides.yaml:1", "01:00.9"} {
		if !strings.Contains(header, words) {
			s.failf("devices: found the first line %q, want %q in it", header, words)
		}
	}
	same(s, "metric", s.configInfo(), hash)
	s.hasReasons(map[string][]string{secondID: {"excluded"}})
	s.sameDaemon(daemon)

	s.step("kubectl delete configmap: the card is offered again")
	s.kubectlSystem("delete", "configmap", overrides)
	s.syncConfigMaps()
	s.awaitAdvertised(s.resource, 2, 2)
	s.configApplied()
	s.sameDaemon(daemon)
}

// kubectlSystem runs kubectl in the release's namespace.
func (s *scene) kubectlSystem(args ...string) string {
	return s.must("kubectl", append([]string{"--namespace", namespace}, args...)...)
}

// patchOverrides replaces the content of the overrides ConfigMap.
func (s *scene) patchOverrides(content string) {
	s.kubectlSystem("patch", "configmap", overrides, "--type", "merge", "--patch", fmt.Sprintf(`{"data": {"overrides.yaml": %q}}`, content))
}

// syncConfigMaps annotates the daemon's pod. Any change to a pod makes the kubelet update the ConfigMaps in it
// immediately.
func (s *scene) syncConfigMaps() {
	s.kubectlSystem("annotate", "pod", "--selector", "app.kubernetes.io/instance="+release, "--overwrite",
		"example.com/looked="+time.Now().Format(time.RFC3339Nano))
}

// sameDaemon ends the story if the daemon's pod has been replaced or restarted.
func (s *scene) sameDaemon(name string) {
	pod := s.daemon()
	same(s, "daemon", fmt.Sprint(pod.Name, " ", pod.Status.ContainerStatuses[0].RestartCount), name+" 0")
}

// hash returns the hash that the current settings should have.
func (s *scene) hash() string {
	content := s.kubectlSystem("get", "configmap", release+"-accelerator-device-plugin", "--output", `jsonpath={.data.config\.yaml}`) +
		s.kubectlSystem("get", "configmap", "--ignore-not-found", overrides, "--output", `jsonpath={.data.overrides\.yaml}`)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(content)))[:12]
}

// configApplied waits until the log, the metric and the first line of `devices` show the hash of the current settings.
func (s *scene) configApplied() {
	want := s.hash()
	s.logged("config.applied", line{"hash": want})
	await(s, "hash in the metric", func() (string, error) { return s.configInfo(), nil }, want)
	header, _, _ := strings.Cut(s.exec("devices"), "\n")
	if !strings.HasPrefix(header, "daemon ") || !strings.HasSuffix(header, "settings "+want) {
		s.failf("devices: found the first line %q, want settings %s at its end", header, want)
	}
}

// configInfo returns the hash that the daemon's metric shows.
func (s *scene) configInfo() string {
	page := must(s.Client.CoreV1().Pods(namespace).ProxyGet("http", s.daemon().Name, "9480", "/metrics", nil).DoRaw(s.ctx))
	_, hash, _ := strings.Cut(string(page), `accelerator_config_info{hash="`)
	hash, _, _ = strings.Cut(hash, `"`)
	return hash
}
