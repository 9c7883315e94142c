package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

const (
	registryImage   = "accelerator-fpga-registry"
	registryAddress = "198.18.0.1:5000" // on the pods' bridge
	keeperPods      = "app.kubernetes.io/name=accelerator-device-plugin-bitstreams,app.kubernetes.io/instance=" + release

	// registryUser is the registry's htpasswd entry: a user, with the bcrypt hash of the password "secret".
	registryUser = "user:$2a$04$nAph6uAjj2tXavcEbvgqvui99VyEKiqJSNALpt1e7zcWQG7gW5CVu\n"
	dockerConfig = `{"auths": {"` + registryAddress + `": {"username": "user", "password": "secret"}}}`
)

// startRegistry runs CNCF's registry, with TLS and a password, until the story ends. It returns the registry's
// directory, which contains the credentials.
func (s *scene) startRegistry() (dir string) {
	dir = must(os.MkdirTemp("", "e2e-registry-"))
	pki := filepath.Join(cluster.Root, "pki")
	config := strings.NewReplacer("DIR", dir, "ADDRESS", registryAddress, "PKI", pki).Replace(`version: 0.1
storage: {filesystem: {rootdirectory: DIR/data}}
http: {addr: "ADDRESS", tls: {certificate: PKI/apiserver.crt, key: PKI/apiserver.key}}
auth: {htpasswd: {realm: registry, path: DIR/htpasswd}}
log: {level: warn}
`)
	s.check(errors.Join(os.WriteFile(dir+"/htpasswd", []byte(registryUser), 0o600), os.WriteFile(dir+"/config.json", []byte(dockerConfig), 0o600)))
	s.serveRegistry(dir, config, registryAddress)
	return dir
}

// serveRegistry runs CNCF's registry with the given configuration and address until the story ends, and then removes
// dir.
func (s *scene) serveRegistry(dir, config, address string) {
	s.check(os.WriteFile(dir+"/registry.yaml", []byte(config), 0o600))
	unused := must(net.Listen("tcp", address)) // fails if another program is listening
	s.check(unused.Close())
	cmd := exec.CommandContext(s.ctx, filepath.Join(s.out, "registry"), "serve", dir+"/registry.yaml")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	s.check(cmd.Start())
	s.cleanups = append(s.cleanups, func() {
		killed := cmd.Process.Kill()
		_ = cmd.Wait() // the error is the signal that killed it
		s.check(errors.Join(killed, os.RemoveAll(dir)))
	})
	await(s, "registry", func() (bool, error) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false, err
		}
		return true, c.Close()
	}, true)
}

// pushBitstream pushes a bitstream for this AFU to the registry, as a user on another machine would. dir is the
// registry's directory, which contains the credentials.
func (s *scene) pushBitstream(dir, afu, reference string) {
	file := filepath.Join(dir, afu+".gbs")
	s.check(os.WriteFile(file, bits.GBS(bits.Metadata(interfaceID, afu), make([]byte, 1<<20)), 0o644))
	cmd := exec.CommandContext(s.ctx, filepath.Join(s.dist, "bin_"+runtime.GOARCH, registryImage), "push", "--ca-file", cluster.Root+"/pki/ca.crt", file, reference)
	cmd.Env = []string{"DOCKER_CONFIG=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		s.failf("push %s: %w: %s", reference, err, out)
	}
}

// bitstreams configures the chart with a reference to a bitstream in a registry. A pod whose claim requires this
// bitstream runs with the bitstream's AFU, without any steps on the node. A pod that requires another bitstream stays
// pending, with a reason, until a reference to that bitstream is added. A reference to a bitstream that doesn't exist
// causes an Event, but doesn't delay anything else.
func bitstreams(s *scene) {
	s.plugCard(first, 1, -1, otherAFU)
	s.plugCard(second, 1, -1, otherAFU)
	dir := s.startRegistry()
	const nlb, other, none = registryAddress + "/fpga/nlb:1.0", registryAddress + "/fpga/other:1.0", registryAddress + "/fpga/none:1.0"
	s.pushBitstream(dir, afuID, nlb)
	s.pushBitstream(dir, otherAFU, other)
	secrets := s.Client.CoreV1().Secrets(namespace)
	must(secrets.Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bitstreams"}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: dockerConfig},
	}, metav1.CreateOptions{}))
	s.cleanups = append(s.cleanups, func() {
		s.uninstall()
		await(s, "pods that keep bitstreams", func() (int, error) {
			pods, err := s.daemonsOf(keeperPods)
			return len(pods), err
		}, 0)
		s.check(errors.Join(secrets.Delete(s.ctx, "bitstreams", metav1.DeleteOptions{}), os.RemoveAll(filepath.Dir(hostDir)), os.RemoveAll(specs)))
	})

	s.step("helm install with one reference: its bitstream is in the slices of the node")
	authority := string(must(os.ReadFile(cluster.Root + "/pki/ca.crt")))
	s.installDRA(append(slices.Clone(programmingValues), "dra.publishBitstreams=true", "events=true",
		"bitstreams.references={"+nlb+"}", "bitstreams.pullSecret=bitstreams", "bitstreams.ca="+authority,
		"bitstreams.minFree=0")...) // the machine's disk may be nearly full
	published := s.followSlices()
	name := func(afu string) string { return "afu-" + afu + "-" + interfaceID[:16] }
	shown := maps.Clone(offer(firstID, secondID))
	shown[name(afuID)] = ""
	published.shows(time.Now(), shown)
	if out := s.hostTool("list", "--store", store); !strings.Contains(out, afuID) {
		s.failf("accelerator-fpga list: found %s, want %s", out, afuID)
	}

	s.step("a pod that requires it: its card is programmed, and it runs")
	claim := func(afu string) resourceapi.DeviceClaim {
		interfaces := resourceapi.FullyQualifiedName(draDriver + "/interfaceId")
		bitstream := request("afu", 1, attribute("afuId")+` == "`+afu+`"`)
		bitstream.Exactly.DeviceClassName = "bitstream." + draDriver
		return resourceapi.DeviceClaim{
			Requests:    []resourceapi.DeviceRequest{request("card", 1, ""), bitstream},
			Constraints: []resourceapi.DeviceConstraint{{Requests: []string{"card", "afu"}, MatchAttribute: &interfaces}},
		}
	}
	s.claim("one", claim(afuID))
	s.create(restarting(s.claimant("one", "one")))
	s.step("  %s", s.hookFails("one", "--afu: card "+firstID)) // the hook has found the bitstream, but the simulated card doesn't have a driver
	s.hardware(func(n *simnode.Node) error { return n.Reprogram(first, 0, afuID) })
	s.hasReport("one", draReport(firstID, "dfl-port.0"))

	s.step("a pod that requires a bitstream that no node has is pending, with a reason")
	s.claimed("two", claim(otherAFU))
	s.pending("two")
	s.step("  %s", s.unscheduled("two"))

	s.step("the list gets this bitstream and one that does not exist: no pod is replaced, the pod is scheduled, and an Event names the missing one")
	driver, keeper := s.daemon(), s.daemonOf(keeperPods)
	changed := time.Now()
	s.mustHelm("upgrade", s.chart(), "--reset-then-reuse-values", "--wait", "--timeout", "1m", "--set", "bitstreams.references={"+strings.Join([]string{nlb, other, none}, ",")+"}")
	shown = maps.Clone(shown)
	shown[name(otherAFU)] = ""
	s.step("  in the slice after %.0f s", published.shows(changed, shown).Sub(changed).Seconds())
	s.hasReport("two", draReport(secondID, "dfl-port.1"))
	await(s, "Event of the missing bitstream", func() (bool, error) {
		list, err := s.Client.CoreV1().Events(namespace).List(s.ctx, metav1.ListOptions{FieldSelector: "reason=BitstreamsFailed,involvedObject.name=" + keeper.Name})
		return err == nil && slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return strings.Contains(e.Message, none+": found none in the registry") && e.InvolvedObject.UID == keeper.UID
		}), err
	}, true)
	same(s, "pods", []string{s.daemon().Name, s.daemonOf(keeperPods).Name}, []string{driver.Name, keeper.Name})

	s.step("pods bring a bitstream in an image volume: they can read it, but a claim does not get it, because the store lacks it")
	s.deleteClaimed("two")
	const own = "0123456789abcdef0123456789abcdef"
	file, archive, content := filepath.Join(dir, own+".gbs"), filepath.Join(dir, "volume.tar"), bits.GBS(bits.Metadata(interfaceID, own), make([]byte, 4096))
	volume := cluster.Image{Name: "adp.e2e/volume:1"}
	s.check(errors.Join(os.WriteFile(file, content, 0o644), cluster.WriteImages(archive, file, []cluster.Image{volume}), s.Import(s.ctx, archive)))
	s.claim("own", programmed(second, own))
	for _, pod := range []*corev1.Pod{s.claimant("reader"), s.claimant("own", "own")} {
		pod.Spec.Volumes = []corev1.Volume{{Name: "bitstreams", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: volume.Name}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "bitstreams", MountPath: "/bitstreams", ReadOnly: true}}
		s.create(pod)
	}
	s.reachesPhase("reader", corev1.PodRunning)
	reader := s.pid(must(s.readPod("reader")).Status.ContainerStatuses[0].ContainerID)
	same(s, "file in the volume", bytes.Equal(must(os.ReadFile(fmt.Sprintf("/proc/%d/root/bitstreams/%s.gbs", reader, own))), content), true)
	s.oneLine("own", "bitstream for interface "+interfaceID+" and AFU "+own+" in the store")

	s.step("the pod that keeps them can write to the store, and to nothing else of the node")
	pid := s.pid(keeper.Status.ContainerStatuses[0].ContainerID)
	want := map[string]string{"/": "ro", "/etc/bitstreams": "ro", "/etc/bitstreams-credentials": "ro", "/host/sys": "ro", store: "rw"}
	same(s, "mounts", mounts(pid, slices.Collect(maps.Keys(want))...), want)
	status := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))))
	if !strings.Contains(status, "CapEff:\t0000000000000000\n") {
		s.failf("capabilities of the pod that keeps bitstreams: found %s, want none", status)
	}
}
