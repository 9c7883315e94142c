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

// overrides is the ConfigMap of the user's own, as docs/install.md has it.
const overrides = release + "-accelerator-device-plugin-overrides"

// Settings of this node change without a restart, and Helm leaves them alone.
func settingsInService(s *scene) {
	s.plug(first, second)
	s.install()
	s.offers(s.resource, 2, 2)
	s.inForce()
	s.cleanups = append(s.cleanups, func() { s.system("delete", "configmap", "--ignore-not-found", overrides) })

	s.step("kubectl create configmap: a card of this node is taken out, without restart")
	daemon := s.daemon().Name
	file := filepath.Join(s.out, "overrides.yaml")
	s.check(os.WriteFile(file, []byte("nodes:\n  "+cluster.NodeName+":\n    exclude:\n    - "+firstID+"\n  another:\n    exclude:\n    - "+secondID+"\n"), 0o644))
	s.system("create", "configmap", overrides, "--from-file=overrides.yaml="+file)
	s.arrives()
	s.reasons(map[string][]string{firstID: {"excluded"}})
	s.offers(s.resource, 2, 1)
	s.inForce()
	s.sameDaemon(daemon)

	s.step("kubectl patch: the other card instead")
	s.patchOverrides("nodes: {" + cluster.NodeName + ": {exclude: [" + secondID + "]}}")
	s.arrives()
	s.reasons(map[string][]string{secondID: {"excluded"}})
	s.inForce()
	s.sameDaemon(daemon)
	const version = "jsonpath={.metadata.uid} {.metadata.resourceVersion} {.data}"
	before := s.system("get", "configmap", overrides, "--output", version)

	for _, tt := range []struct {
		name string
		args []string
	}{
		{"upgrade", []string{s.chart(), "--reset-then-reuse-values", "--set", "config.logLevel=debug"}},
		{"rollback", []string{"1"}},
		{"upgrade", []string{s.chart(), "--reset-then-reuse-values", "--set", "config.flapLimit=4", "--force-conflicts"}},
	} {
		s.step("helm %s leaves it alone: %s", tt.name, tt.args[len(tt.args)-1])
		old := s.daemon().Name
		_, err := s.helm(tt.name, append(tt.args, "--wait", "--timeout", "1m")...)
		s.check(err)
		await(s, "another daemon", func() (bool, error) { return s.daemon().Name != old, nil }, true)
		same(s, "overrides", s.system("get", "configmap", overrides, "--output", version), before)
		s.reasons(map[string][]string{secondID: {"excluded"}})
		s.inForce()
	}

	s.step("kubectl patch with an error: refused, and the settings stay")
	daemon = s.daemon().Name
	hash := s.hash()
	s.patchOverrides("nodes: {" + cluster.NodeName + ": {exclude: [01:00.9]}}")
	s.arrives()
	s.logged("config.refused", line{"level": "error"})
	header, _, _ := strings.Cut(s.exec("devices"), "\n")
	for _, words := range []string{"settings " + hash, "refused", "overrides.yaml:1", "01:00.9"} {
		if !strings.Contains(header, words) {
			s.failf("devices: first line %q, want %q in it", header, words)
		}
	}
	same(s, "metric", s.configInfo(), hash)
	s.reasons(map[string][]string{secondID: {"excluded"}})
	s.sameDaemon(daemon)

	s.step("kubectl delete configmap: the card is back")
	s.system("delete", "configmap", overrides)
	s.arrives()
	s.offers(s.resource, 2, 2)
	s.inForce()
	s.sameDaemon(daemon)
}

// system runs a command of kubectl in the namespace of the release.
func (s *scene) system(args ...string) string {
	out, err := s.Run(s.ctx, "kubectl", append([]string{"--namespace", namespace}, args...)...)
	s.check(err)
	return out
}

func (s *scene) patchOverrides(content string) {
	s.system("patch", "configmap", overrides, "--type", "merge", "--patch", fmt.Sprintf(`{"data": {"overrides.yaml": %q}}`, content))
}

// arrives has the kubelet look at the ConfigMaps of the daemon's pod now.
func (s *scene) arrives() {
	s.system("annotate", "pod", "--selector", "app.kubernetes.io/instance="+release, "--overwrite",
		"example.com/looked="+time.Now().Format(time.RFC3339Nano))
}

// sameDaemon ends the story if the daemon is another one, or was started again.
func (s *scene) sameDaemon(name string) {
	pod := s.daemon()
	same(s, "daemon", fmt.Sprint(pod.Name, " ", pod.Status.ContainerStatuses[0].RestartCount), name+" 0")
}

// hash returns the hash of the settings that should be in force.
func (s *scene) hash() string {
	content := s.system("get", "configmap", release+"-accelerator-device-plugin", "--output", `jsonpath={.data.config\.yaml}`) +
		s.system("get", "configmap", "--ignore-not-found", overrides, "--output", `jsonpath={.data.overrides\.yaml}`)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(content)))[:12]
}

// inForce waits until the log, the metric and the first line of devices have that hash.
func (s *scene) inForce() {
	want := s.hash()
	s.logged("config.applied", line{"hash": want})
	await(s, "hash in the metric", func() (string, error) { return s.configInfo(), nil }, want)
	header, _, _ := strings.Cut(s.exec("devices"), "\n")
	if !strings.HasPrefix(header, "daemon ") || !strings.HasSuffix(header, "settings "+want) {
		s.failf("devices: first line %q, want settings %s at its end", header, want)
	}
}

// configInfo returns the hash in the daemon's metric.
func (s *scene) configInfo() string {
	page, err := s.Client.CoreV1().Pods(namespace).ProxyGet("http", s.daemon().Name, "9480", "/metrics", nil).DoRaw(s.ctx)
	s.check(err)
	_, hash, _ := strings.Cut(string(page), `accelerator_config_info{hash="`)
	hash, _, _ = strings.Cut(hash, `"`)
	return hash
}
