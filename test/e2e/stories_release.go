package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// publication is a release that has been published in a registry on the loopback interface.
type publication struct {
	s        *scene
	dir      string // the release's files
	work     string // keys, and the programs' home directory
	registry string // the registry's address, including the path
}

// releaseStory publishes dist/release as a publisher would, installs it as a user would, and upgrades to it from
// earlier releases.
func releaseStory(s *scene) {
	if s.releases == "" {
		fmt.Printf("  NOT RUN: it needs %s, of: make release REGISTRY=localhost:5000/fpga URL=https://example.com/download\n", s.releaseFile("image.tar"))
		return
	}
	s.step("publish.sh pushes and signs the release, twice: the second time nothing is left to do")
	p := s.publish()
	s.step("cosign verifies files, images, charts and provenance with the key, and not with another one")
	p.verify()

	s.step("helm install from the registry: the node pulls the image that release-notes.md names")
	s.plugFourPorts()
	s.mustHelm("install", p.chart("simulatedNode="+simulated, "stateDir="+state, "config.resourceName="+s.resource, "config.recoveryHold=1s")...)
	s.awaitAdvertised(s.resource, 4, 4)
	digest := p.digest("accelerator-device-plugin")
	if id := s.daemon().Status.ContainerStatuses[0].ImageID; !strings.HasSuffix(id, "@"+digest) {
		s.failf("image of the daemon: found %s, want %s", id, digest)
	}
	s.user("user")
	s.reachesPhase("user", corev1.PodRunning)

	s.step("krew installs kubectl accelerator from the manifest: it lists the cards, and refuses the archive of another platform")
	plugin := p.krew()
	out := p.run([]string{"KUBECONFIG=" + s.Kubeconfig}, plugin, "devices", "--namespace", namespace)
	for _, id := range []string{firstID, secondID, thirdID} {
		if !strings.Contains(out, id) {
			s.failf("kubectl accelerator devices: found no %s in %s", id, out)
		}
	}
	s.deletePods("user")
	s.uninstall()

	s.upgradesFrom("0.1.0", p)
	s.upgradesFrom("0.2.0", p, "stateDir="+state)
}

// releaseFile returns the path of a file in dist/release that belongs to the plugin's image or chart.
func (o options) releaseFile(kind string) string {
	return filepath.Join(o.dist, "release", "accelerator-device-plugin_"+o.version+"_"+kind)
}

// publish pushes and signs the release in dist/release, with a new key and without a public transparency log.
func (s *scene) publish() *publication {
	p := &publication{s: s, work: must(os.MkdirTemp("", "e2e-release-"))}
	s.cleanups = append(s.cleanups, func() { s.check(os.RemoveAll(p.work)) })
	p.dir = filepath.Join(p.work, "release")
	s.check(os.Mkdir(p.dir, 0o755))
	from := filepath.Join(s.dist, "release")
	for _, entry := range must(os.ReadDir(from)) {
		// publish.sh adds a file, so work in a copy to keep that file out of dist/release.
		if entry.Name() != "SHA256SUMS.sigstore.json" {
			s.check(os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(p.dir, entry.Name())))
		}
	}
	var provenance struct {
		BuildDefinition struct {
			ExternalParameters struct{ Registry string }
		}
	}
	s.check(json.Unmarshal(must(os.ReadFile(filepath.Join(from, "provenance.json"))), &provenance))
	p.registry = provenance.BuildDefinition.ExternalParameters.Registry
	address, _, _ := strings.Cut(p.registry, "/")
	if host, _, err := net.SplitHostPort(address); err != nil || host != "localhost" {
		s.failf("dist/release/provenance.json: registry: found %q, want one on localhost with a port, such as localhost:5000/fpga: build it again", p.registry)
	}
	registry := filepath.Join(p.work, "registry")
	s.check(os.Mkdir(registry, 0o755))
	s.serveRegistry(registry, strings.NewReplacer("DIR", registry, "ADDRESS", address).Replace(`version: 0.1
storage: {filesystem: {rootdirectory: DIR/data}}
http: {addr: "ADDRESS"}
log: {level: warn}
`), address)

	for _, dir := range []string{"keys", "others"} {
		s.check(os.Mkdir(filepath.Join(p.work, dir), 0o700))
		p.runIn(filepath.Join(p.work, dir), nil, p.program("cosign"), "generate-key-pair")
	}
	config := filepath.Join(p.work, "keys", "none.json")
	p.run(nil, p.program("cosign"), "signing-config", "create", "--out", config)
	env := []string{
		"COSIGN_KEY=" + filepath.Join(p.work, "keys", "cosign.key"), "COSIGN_SIGN_FLAGS=--signing-config " + config, "COSIGN_VERIFY_FLAGS=--insecure-ignore-tlog",
	}
	script := filepath.Join(p.dir, "publish.sh")
	if out := p.run(env, script); !strings.Contains(out, "\n+ cosign sign ") || !strings.Contains(out, "\ndone: ") {
		s.failf("publish.sh: found no signature in its output: %s", out)
	}
	if out := p.run(env, script); strings.Contains(out, "\n+ cosign ") || !strings.Contains(out, "\ndone: ") {
		s.failf("publish.sh, the second time: found another signature in its output: %s", out)
	}
	return p
}

// program returns the path of oras, cosign or krew.
func (p *publication) program(name string) string { return filepath.Join(p.s.releases, "bin", name) }

// run runs a program with these additional environment variables, and returns its output.
func (p *publication) run(env []string, program string, args ...string) string {
	return p.runIn(p.dir, env, program, args...)
}

func (p *publication) runIn(dir string, env []string, program string, args ...string) string {
	return must(p.tryIn(dir, env, program, args...))
}

// tryIn runs a program in a directory. The program has its own home directory and key store.
func (p *publication) tryIn(dir string, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(p.s.ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+p.work, "XDG_CACHE_HOME="+p.work, "KREW_ROOT="+filepath.Join(p.work, "krew"), "COSIGN_PASSWORD=secret",
		"PATH="+filepath.Join(p.s.releases, "bin")+":"+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s %q: %w: %s%s", filepath.Base(program), args, err, out, exit.Stderr)
	}
	return string(out), err
}

// verify runs the commands in docs/releases.md. They must succeed with the publisher's key, and fail with another one.
func (p *publication) verify() {
	tag := ":" + p.s.tag()
	commands := [][]string{{"verify-blob", "--bundle", "SHA256SUMS.sigstore.json", "SHA256SUMS"}}
	for _, name := range images {
		commands = append(commands, []string{"verify", p.registry + "/" + name + tag}, []string{"verify-attestation", "--type", "slsaprovenance1", p.registry + "/" + name + tag})
	}
	for _, name := range []string{"accelerator-device-plugin", operator} {
		commands = append(commands, []string{"verify", p.registry + "/charts/" + name + tag})
	}
	for _, args := range commands {
		for _, key := range []string{"keys", "others"} {
			args := append(args, "--insecure-ignore-tlog", "--key", filepath.Join(p.work, key, "cosign.pub"))
			if out, err := p.tryIn(p.dir, nil, p.program("cosign"), args...); (err == nil) != (key == "keys") {
				p.s.failf("cosign %q: found error %w, want one only with the other key: %s", args, err, out)
			}
		}
	}
	p.run(nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
}

// digest returns an image's digest in the registry, and checks that release-notes.md lists it.
func (p *publication) digest(repository string) string {
	digest := strings.TrimSpace(p.run(nil, p.program("oras"), "resolve", p.registry+"/"+repository+":"+p.s.tag()))
	row := fmt.Sprintf("| `%s` | `%s` |", repository, digest)
	if notes := must(os.ReadFile(filepath.Join(p.dir, "release-notes.md"))); !strings.Contains(string(notes), row) {
		p.s.failf("release-notes.md: found no row %s", row)
	}
	return digest
}

// chart returns helm's arguments for installing the plugin's chart from the registry with these values.
func (p *publication) chart(values ...string) []string {
	return setting([]string{"oci://" + p.registry + "/charts/accelerator-device-plugin", "--version", p.s.version, "--plain-http", "--timeout", "1m"}, values...)
}

// krew installs kubectl accelerator from the release's manifest, and returns its path.
func (p *publication) krew() string {
	archive := func(arch string) string {
		return fmt.Sprintf("kubectl-accelerator_%s_linux_%s.tar.gz", p.s.version, arch)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	_, err := p.tryIn(p.dir, nil, p.program("krew"), "install", "--manifest=accelerator.yaml", "--archive="+archive(other))
	p.s.refused("krew install of the archive for "+other, err, "checksum does not match")
	p.run(nil, p.program("krew"), "install", "--manifest=accelerator.yaml", "--archive="+archive(runtime.GOARCH))
	return filepath.Join(p.work, "krew", "bin", "kubectl-accelerator")
}

// awayInUpgrade is how long a port can go without being offered while one release replaces another.
const awayInUpgrade = 15 * time.Second

// upgradesFrom installs an earlier release with these additional values, upgrades to the published one, rolls back, and
// upgrades again. Pods hold ports throughout. During each change, a pod waits for two ports: one is free, and the other
// becomes free halfway through. No port is allocated to two pods.
func (s *scene) upgradesFrom(version string, p *publication, values ...string) {
	s.step("helm install of %s from its own image and chart; three of four ports are held", version)
	s.check(os.RemoveAll(state))
	dir := filepath.Join(s.releases, version)
	s.check(s.Import(s.ctx, filepath.Join(dir, "image.tar")))
	s.mustHelm("install", setting([]string{filepath.Join(dir, "chart.tgz"), "--wait", "--timeout", "1m"},
		append(values, "simulatedNode="+simulated, "config.resourceName="+s.resource, "config.recoveryHold=1s")...)...)
	s.awaitAdvertised(s.resource, 4, 4)
	w := s.sample(&sampler{resources: []string{s.resource}, awayLimit: awayInUpgrade})
	holders := s.crowdOf("holds", s.resource, 3)
	s.run(holders, 3)
	reports := make(map[string]report)
	for _, name := range holders {
		reports[name] = s.anyReport(name)
	}
	ends := []string{holders[0], "waits-0", "waits-1"}
	for i, change := range []struct {
		name string
		args []string
	}{
		{"helm upgrade from " + version, append([]string{"upgrade", "--reset-then-reuse-values"}, p.chart("stateDir="+state)...)},
		{"helm rollback to " + version, []string{"rollback", "1"}},
		{"helm upgrade from " + version + " again", append([]string{"upgrade", "--reset-then-reuse-values"}, p.chart("stateDir="+state)...)},
	} {
		s.step("%s: a pod waits for two ports", change.name)
		waits := fmt.Sprintf("waits-%d", i)
		s.create(s.pod(waits, s.resource, 2))
		s.unschedulable(waits)
		old, began := s.daemon().Name, time.Now()
		s.mustHelm(change.args[0], change.args[1:]...)
		s.wait(3 * time.Second)
		s.deletePods(ends[i])
		ended := time.Now()
		s.reachesPhase(waits, corev1.PodRunning)
		s.step("  the waiting pod runs %.1f s after the end of another one", time.Since(ended).Seconds())
		s.replaces(old)
		s.step("  another daemon is the only one after %.1f s", time.Since(began).Seconds())
		for _, name := range holders[1:] {
			s.keepsDevices(name, reports[name].Env["ACCELERATOR_DEVICES"])
			same(s, "report of "+name, s.anyReport(name), reports[name])
		}
		s.keepsDevices(waits, s.anyReport(waits).Env["ACCELERATOR_DEVICES"])
		w.changes(began)
	}
	w.end()
	s.deletePods("holds-1", "holds-2", "waits-2")
	s.awaitAdvertisedSoon(s.resource, 4, 4)
	s.uninstall()
}
