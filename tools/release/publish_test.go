package main

import (
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	orascontent "oras.land/oras-go/v2/content"
	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// publisher is a release with the registry that publish.sh pushes it to.
type publisher struct {
	release Release
	host    string
	path    string        // PATH of the script
	broken  *atomic.Int32 // status with which the registry answers all writes, or 0
	writes  *atomic.Int32 // manifests that were written
	fails   *atomic.Int32 // requests until the registry breaks, if positive
	env     []string      // of the script
}

func newPublisher(t *testing.T) publisher {
	t.Helper()
	p := publisher{release: example(t), broken: new(atomic.Int32), writes: new(atomic.Int32), fails: new(atomic.Int32)}
	handler := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.fails.Load() > 0 && p.fails.Add(-1) == 0 {
			p.broken.Store(http.StatusForbidden)
		}
		if status := p.broken.Load(); status != 0 {
			http.Error(w, "broken", int(status))
			return
		}
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			p.writes.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.host = strings.Replace(strings.TrimPrefix(server.URL, "http://"), "127.0.0.1", "localhost", 1) // oras asks others over https
	p.release.Registry = p.host + "/fpga"
	made(t, p.release)

	build := exec.Command("go", "tool", "-n", "oras") // builds oras unless it is in the cache
	build.Stderr = os.Stderr
	oras := must.Value(build.Output())(t)
	bin := t.TempDir()
	must.Succeed(t, os.Symlink(strings.TrimSpace(string(oras)), filepath.Join(bin, "oras")))
	p.path = bin + ":" + os.Getenv("PATH")
	return p
}

// run runs publish.sh from another directory, and returns its output. It checks the exit code and parts of the output.
func (p publisher) run(t *testing.T, args string, code int, parts ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(p.release.Out, "publish.sh"), strings.Fields(args)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + p.path, "HOME=" + cmd.Dir, "TMPDIR=" + cmd.Dir}, p.env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	compare.Equal(t, string(out)+"exit code", code, cmd.ProcessState.ExitCode())
	for _, part := range parts {
		compare.Contains(t, "output", part, string(out))
	}
	return string(out)
}

// repositories are the repositories of a release, below the registry.
var repositories = []string{"accelerator-device-plugin", "accelerator-dra-driver", "accelerator-fpga-registry", "accelerator-operator",
	"charts/accelerator-device-plugin", "charts/accelerator-operator"}

// published checks that the registry has everything of the release: images with bills of materials, charts, and provenance.
func (p publisher) published(t *testing.T) {
	t.Helper()
	attached := map[string]int{}
	for _, name := range repositories {
		repository := must.Value(remote.NewRepository(p.release.Registry + "/" + name))(t)
		repository.PlainHTTP = true
		root, err := repository.Resolve(t.Context(), "1.2.3-dev_abc")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		manifests := []ocispec.Descriptor{root}
		if root.MediaType == ocispec.MediaTypeImageIndex {
			for _, platform := range []string{"amd64", "arm64"} {
				m := must.Value(oras.Resolve(t.Context(), repository, root.Digest.String(), oras.ResolveOptions{TargetPlatform: &ocispec.Platform{OS: "linux", Architecture: platform}}))(t)
				manifests = append(manifests, m)
			}
		}
		for _, m := range manifests {
			all := must.Value(orasregistry.Referrers(t.Context(), repository, m, ""))(t)
			for _, d := range all {
				data := must.Value(orascontent.FetchAll(t.Context(), repository, d))(t)
				var m ocispec.Manifest // this registry lists the config's type as the artifact's type
				parse(t, data, &m)
				attached[m.ArtifactType]++
			}
		}
	}
	if attached["application/vnd.cyclonedx+json"] != 8 || attached["application/vnd.in-toto+json"] != 6 {
		t.Errorf("attached: found %v, want 8 bills of materials and 6 statements", attached)
	}
}

func TestPublish(t *testing.T) {
	p := newPublisher(t)
	p.run(t, "", 0, "COSIGN_KEY is not set: nothing is signed", "+ oras cp", p.release.Registry+"/charts/accelerator-operator:1.2.3-dev_abc", "done: ")
	p.published(t)

	// A second time, everything is there.
	before := p.writes.Load()
	p.run(t, "", 0, "done: ")
	compare.Equal(t, "manifests that are written again", 6, p.writes.Load()-before) // the tags
	p.published(t)

	// The contents of a tag are never replaced with other contents.
	p.release.Out, p.release.Revision = t.TempDir(), strings.Repeat("9", 40)
	made(t, p.release)
	p.run(t, "", 1, "a published version is never replaced")
}

// A push that was interrupted at any request is completed by the next one.
func TestPublishCut(t *testing.T) {
	p := newPublisher(t)
	for _, n := range []int32{1, 2, 5, 9, 14, 20, 40, 80} {
		p.fails.Store(n)
		p.run(t, "", 1)
		p.fails.Store(0)
		p.broken.Store(0)
	}
	p.run(t, "", 0, "done: ")
	p.published(t)
}

func TestPublishRefusals(t *testing.T) {
	p := newPublisher(t)
	p.run(t, "--help", 0, "usage: REGISTRY=", "default: "+p.release.Registry, "of 1.2.3-dev+abc")
	p.run(t, "--hepl", 2, "usage: ")
	p.run(t, "--dry-run", 0, "+ oras cp")
	compare.Equal(t, "manifests that --dry-run wrote", 0, p.writes.Load())
	// If a registry does not tell what it contains, it may have another image under the tag.
	p.broken.Store(http.StatusUnauthorized)
	p.run(t, "", 1, "publish.sh: "+p.release.Registry+"/accelerator-device-plugin:1.2.3-dev_abc: ")
	p.broken.Store(0)
	path := p.path
	p.path = "/usr/bin:/bin"
	p.run(t, "", 1, "oras is not in PATH")
	p.path = path
	write(t, filepath.Join(p.release.Out, "accelerator-operator-1.2.3-dev+abc.tgz"), "changed")
	p.run(t, "", 1, "accelerator-operator-1.2.3-dev+abc.tgz: FAILED", "download them again")

	p = newPublisher(t)
	p.release.Registry, p.release.Out = "", t.TempDir()
	made(t, p.release)
	p.run(t, "", 1, "REGISTRY: found none")
	p.env = []string{"REGISTRY=" + p.host + "/fpga"} // charts for imported images can be pushed, too
	p.run(t, "", 0, p.host+"/fpga/accelerator-operator:1.2.3-dev_abc")
}

// cosign is given by make test-release, which builds it.
var cosign = flag.String("cosign", "", "path of cosign, for TestSignatures")

// publish.sh signs images, charts, provenance and SHA256SUMS once, with a key of a file, without a public log.
func TestSignatures(t *testing.T) {
	if *cosign == "" {
		t.Skip("no cosign: make test-release builds it")
	}
	p := newPublisher(t)
	bin, keys := t.TempDir(), t.TempDir()
	must.Succeed(t, os.Symlink(*cosign, filepath.Join(bin, "cosign")))
	p.path = bin + ":" + p.path
	runs := func(ok bool, args ...string) {
		t.Helper()
		cmd := exec.Command(*cosign, args...)
		cmd.Dir, cmd.Env = keys, append(os.Environ(), "HOME="+keys, "COSIGN_PASSWORD=secret")
		if out, err := cmd.CombinedOutput(); (err == nil) != ok {
			t.Errorf("cosign %q: error %v, want success %v: %s", args, err, ok, out)
		}
	}
	runs(true, "generate-key-pair")
	runs(true, "signing-config", "create", "--out", "none.json")
	verifies := func(ok bool, args ...string) {
		t.Helper()
		runs(ok, append(args, "--key", "cosign.pub", "--insecure-ignore-tlog")...)
	}
	p.env = []string{
		"COSIGN_KEY=" + filepath.Join(keys, "cosign.key"), "COSIGN_PASSWORD=secret",
		"COSIGN_SIGN_FLAGS=--signing-config " + filepath.Join(keys, "none.json"), "COSIGN_VERIFY_FLAGS=--insecure-ignore-tlog",
	}
	p.run(t, "", 0, "+ cosign sign ", "+ cosign attest ", "+ cosign sign-blob ", "done: ")
	for _, name := range repositories {
		ref := p.release.Registry + "/" + name + ":1.2.3-dev_abc"
		verifies(true, "verify", ref)
		verifies(true, "verify-attestation", "--type", "slsaprovenance1", ref)
		verifies(false, "verify-attestation", "--type", "spdx", ref)
	}
	sums := filepath.Join(p.release.Out, "SHA256SUMS")
	verifies(true, "verify-blob", "--bundle", sums+".sigstore.json", sums)
	verifies(false, "verify-blob", "--bundle", sums+".sigstore.json", filepath.Join(p.release.Out, "release-notes.md"))

	out := p.run(t, "", 0, "is signed already", "SHA256SUMS is signed already", "done: ")
	if strings.Contains(out, "+ cosign") {
		t.Errorf("the second time, something was signed again:\n%s", out)
	}
}
