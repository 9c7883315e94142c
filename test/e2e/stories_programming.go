package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bits "b-com.com/accelerator-device-plugin/programming/bitstreamtest"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// The ids of the stories about programming, and where the chart and the hook put things.
const (
	otherAFU       = "f7df405cbd7acf7222f144b0b93acd18"
	otherInterface = "69528db6eb31577a8c3668f9faa081f6"
	region         = "fpga.intel.com/region-" + interfaceID

	hostDir = cluster.Root + "/programming/bin"
	store   = cluster.Root + "/programming/store"
	hookLog = cluster.Root + "/programming/hook.log"
)

// installProgramming installs the chart with programming on.
func (s *scene) installProgramming(values ...string) {
	s.check(os.RemoveAll(filepath.Dir(hostDir)))
	s.cleanups = append(s.cleanups, func() {
		s.uninstall()
		s.check(errors.Join(os.RemoveAll(filepath.Dir(hostDir)), os.RemoveAll(specs)))
	})
	s.install(append([]string{
		"config.mode=region", "config.cdiDir=" + specs, "programming.enabled=true", "programming.hostDir=" + hostDir, "programming.store=" + store,
		"config.programmingHookArgs={--lock-dir=" + cluster.Root + "/programming/lock,--log-file=" + hookLog + "}",
		"test.interface=" + interfaceID, "test.afu=" + afuID,
	}, values...)...)
}

// tool runs the program that the chart has put on the host.
func (s *scene) tool(args ...string) string {
	out, err := exec.CommandContext(s.ctx, hostDir+"/accelerator-fpga", args...).CombinedOutput()
	if err != nil {
		s.failf("accelerator-fpga %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// wants returns a pod that asks for n units of the region and names pairs of an interface and an AFU.
func (s *scene) wants(name string, n int64, ids ...string) *corev1.Pod {
	pod := s.pod(name, region, n)
	for i := 0; i < len(ids); i += 2 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprintf("FPGA_REGION_%d", i/2+1), Value: ids[i]},
			corev1.EnvVar{Name: fmt.Sprintf("FPGA_AFU_%d", i/2+1), Value: ids[i+1]})
	}
	return pod
}

// startFails makes a pod, whose name no other pod of the story has, and waits until an event of
// it ends with the hook's line, which has all these words. Then it deletes the pod.
func (s *scene) startFails(pod *corev1.Pod, words ...string) {
	s.create(pod)
	await(s, "event of pod "+pod.Name, func() (bool, error) {
		list, err := s.Client.CoreV1().Events(s.users).List(s.ctx, metav1.ListOptions{FieldSelector: "reason=Failed,involvedObject.name=" + pod.Name})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		message := strings.TrimSpace(list.Items[0].Message)
		_, line, ok := strings.Cut(message, "stderr: ")
		if !ok || strings.Contains(line, "\n") || !strings.HasPrefix(line, "accelerator-fpga hook: ") {
			s.failf("event of pod %s: %q, want one line of the hook at its end", pod.Name, message)
		}
		for _, want := range words {
			if !strings.Contains(line, want) {
				s.failf("event of pod %s: %q, want %q in it", pod.Name, line, want)
			}
		}
		return true, nil
	}, true)
	s.end(pod.Name)
}

// A pod whose card has its AFU runs; the events of all other pods have the reason.
func programming(s *scene) {
	s.plug(first)
	s.step("helm install with programming: the program is on the host, the daemon cannot reach it")
	s.installProgramming()
	s.offers(region, 1, 1)
	s.tool("version")
	same(s, "mounts of the daemon", s.mounts("/host"+hostDir, store), map[string]string{})
	s.step("a pod whose card holds the AFU runs")
	pod := s.wants("user", 1, strings.ToUpper(interfaceID), afuID[:8]+"-"+afuID[8:])
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.create(pod)
	s.sees("user", holder(firstID, "dfl-port.0"))
	s.step("its container is started again: the hook runs again")
	s.killContainer("user")
	await(s, "container started again", func() (int32, error) { return s.restarts("user") }, 1)
	s.sees("user", holder(firstID, "dfl-port.0"))
	same(s, "hooks that had nothing to do", s.hooks("programming.present"), 2)

	s.plugAFU(second, otherAFU)
	s.offers(region, 2, 2)
	s.step("a privileged pod beside it, which has all devices of the host, wants that AFU: not on the other pod's card")
	s.hostNode("dfl-port.0")
	privileged, yes := s.wants("privileged", 1, interfaceID, afuID), true
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	s.startFails(privileged, "card "+secondID, "bitstream for interface "+interfaceID+" and AFU "+afuID+": found none")
	s.step("it wants two cards of the region: it has one")
	privileged = s.wants("greedy", 1, interfaceID, otherAFU, interfaceID, afuID)
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	s.startFails(privileged, "FPGA_REGION_2", "want as many cards as pairs", secondID)
	s.step("it wants what its own card holds: it runs, and has the nodes of both")
	privileged = s.wants("modest", 1, interfaceID, otherAFU)
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	s.create(privileged)
	s.comes("modest", corev1.PodRunning)
	await(s, "nodes of the privileged pod", func() (map[string]string, error) {
		r, err := s.said("modest", "main")
		return r.Nodes, err
	}, map[string]string{"dfl-port.0": "120:0", "dfl-port.1": "120:1"})
	s.end("modest")
	s.offersSoon(region, 2, 2)

	s.step("a pod without a pair does not start")
	s.startFails(s.wants("none", 1), "process.env: found no FPGA_REGION_n and FPGA_AFU_n")
	s.step("nor one that wants another interface")
	s.startFails(s.wants("interface", 1, otherInterface, otherAFU), "found no card left for interface "+otherInterface)
	s.step("nor one whose bitstream in the store is for another interface")
	const afu = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(store, interfaceID, afu+".gbs")
	s.check(os.MkdirAll(filepath.Dir(file), 0o755))
	s.check(os.WriteFile(file, bits.GBS(bits.Metadata(otherInterface, afu), make([]byte, 4096)), 0o644))
	s.startFails(s.wants("wrong", 1, interfaceID, afu), file, "for interface "+otherInterface, "install the file again")
	s.step("nor one whose bitstream others could have changed")
	s.check(os.Remove(file))
	given := filepath.Join(cluster.Root, "programming", "given.gbs")
	s.check(os.WriteFile(given, bits.GBS(bits.Metadata(interfaceID, afu), make([]byte, 4096)), 0o644))
	s.tool("install", "--store", store, given)
	s.check(os.Chmod(store, 0o777))
	s.startFails(s.wants("writable", 1, interfaceID, afu), store, "chmod go-w")
	s.check(os.Chmod(store, 0o755))
	s.step("nor one whose card cannot be programmed, as this one without a driver")
	s.startFails(s.wants("driver", 1, interfaceID, afu), secondID)
	s.step("the hook's log has it all, and the command logs reads it")
	text, err := os.ReadFile(hookLog)
	s.check(err)
	if out := s.readsLogs(string(text), "--device", secondID, "--event", "programming.*"); bytes.Count(out, []byte("\n")) < 4 || !bytes.Contains(out, []byte("found none")) {
		s.failf("logs --device %s: %s, want four failures", secondID, out)
	}
	s.step("the pod has gone on; a pod gets both cards, each for its pair")
	s.comes("user", corev1.PodRunning)
	s.end("user")
	s.offersSoon(region, 2, 2)
	s.create(s.wants("both", 2, interfaceID, otherAFU, interfaceID, afuID))
	s.sees("both", holder(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	s.end("both")
	s.step("another mode: no hook, a pod without pair runs")
	_, err = s.Run(s.ctx, "helm", append([]string{"upgrade", release, "--namespace", namespace}, s.settings(
		"config.mode=regiondevel", "config.cdiDir="+specs)...)...)
	s.check(err)
	s.daemon()
	s.offersSoon(region, 2, 2)
	s.create(s.pod("developer", region, 1))
	s.comes("developer", corev1.PodRunning)
}

// hooks counts the lines of the hook's log with an event.
func (s *scene) hooks(event string) int {
	text, err := os.ReadFile(hookLog)
	s.check(err)
	return bytes.Count(text, []byte(`"event":"`+event+`"`))
}

// hostNode makes a node of the simulated node in /dev, where a privileged container gets it from,
// until the story ends.
func (s *scene) hostNode(name string) {
	var st syscall.Stat_t
	s.check(syscall.Stat(filepath.Join(simulated, "dev", name), &st))
	path := filepath.Join("/dev", name)
	s.check(syscall.Mknod(path, syscall.S_IFCHR|0o600, int(st.Rdev)))
	s.cleanups = append(s.cleanups, func() { s.check(os.Remove(path)) })
}

// The program is on the host at each moment of an upgrade, whole, and stays when the release goes.
func programmingUpgrade(s *scene) {
	s.plug(first)
	s.step("helm install with programming")
	s.installProgramming()
	s.offers(region, 1, 1)
	s.step("helm test programs its card, or finds it programmed")
	_, err := s.helm("test", "--timeout", "1m")
	s.check(err)
	s.create(s.wants("user", 1, interfaceID, afuID))
	s.sees("user", holder(firstID, "dfl-port.0"))
	before, err := os.Stat(hostDir + "/accelerator-fpga")
	s.check(err)
	s.step("helm upgrade to the next version: the program can be run at each moment")
	looked := s.whole(func() {
		old := s.daemon().Name
		_, err := s.helm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", "image.tag="+nextVersion, "--wait", "--timeout", "1m")
		s.check(err)
		await(s, "another daemon", func() (bool, error) { return s.daemon().Name != old, nil }, true)
	})
	after, err := os.Stat(hostDir + "/accelerator-fpga")
	s.check(err)
	same(s, "replaced", !os.SameFile(before, after), true)
	s.step("  looked %d times", looked)
	s.step("a link in its place: the new pod does not come, the old one goes on")
	old := s.daemon().Name
	s.check(os.Rename(hostDir+"/accelerator-fpga", hostDir+"/elsewhere"))
	s.check(os.Symlink("elsewhere", hostDir+"/accelerator-fpga"))
	_, err = s.helm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", "podLabels.a=b", "--wait", "--timeout", "10s")
	s.refused("helm upgrade", err)
	await(s, "reason", func() (bool, error) { return s.initSays("want a regular file or none: remove it") }, true)
	s.comes("user", corev1.PodRunning)
	s.check(errors.Join(os.Remove(hostDir+"/accelerator-fpga"), os.Rename(hostDir+"/elsewhere", hostDir+"/accelerator-fpga")))
	await(s, "another daemon", func() (bool, error) { return s.daemon().Name != old, nil }, true)
	s.step("helm uninstall: the program stays, the CDI spec goes")
	s.uninstall()
	s.tool("version")
	left, err := filepath.Glob(specs + "/*.json")
	s.check(err)
	same(s, "specs", left, nil)
	entries, err := os.ReadDir(hostDir)
	s.check(err)
	same(s, "files beside it", len(entries), 1)
}

// initSays reports whether the log of an init container of the release has these words.
func (s *scene) initSays(words string) (bool, error) {
	pods, err := s.daemons()
	if err != nil {
		return false, err
	}
	for _, pod := range pods {
		text, err := s.Client.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "install-accelerator-fpga"}).DoRaw(s.ctx)
		if err == nil && strings.Contains(string(text), words) {
			return true, nil
		}
	}
	return false, nil
}

// whole runs the program on the host again and again while do runs, and looks meanwhile whether
// it is there. It returns how often it has looked.
func (s *scene) whole(do func()) int {
	ctx, stop := context.WithCancel(s.ctx)
	path, looked, ran := hostDir+"/accelerator-fpga", 0, 0
	var missing, failed error
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	tasks.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil && missing == nil {
			info, err := os.Lstat(path)
			switch {
			case err != nil:
				missing = err
			case info.Mode() != 0o755:
				missing = fmt.Errorf("%s: mode %s, want a file of 0755", path, info.Mode())
			}
			looked++
			<-tick.C
		}
	})
	tasks.Go(func() {
		for ctx.Err() == nil && failed == nil {
			out, err := exec.CommandContext(ctx, path, "version").CombinedOutput()
			if err != nil && ctx.Err() == nil {
				failed = fmt.Errorf("%w: %s", err, out)
			}
			ran++
		}
	})
	do()
	stop()
	tasks.Wait()
	s.check(errors.Join(missing, failed))
	if ran == 0 {
		s.failf("the program was never run")
	}
	return looked
}
