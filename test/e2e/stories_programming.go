package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// IDs used by the stories about programming, and paths used by the chart and the hook.
const (
	otherAFU       = "f7df405cbd7acf7222f144b0b93acd18"
	otherInterface = "69528db6eb31577a8c3668f9faa081f6"
	region         = "fpga.intel.com/region-" + interfaceID

	hostDir = cluster.Root + "/programming/bin"
	store   = cluster.Root + "/programming/store"
	hookLog = cluster.Root + "/programming/hook.log"
)

// programmingValues lists the chart values that enable programming.
var programmingValues = []string{
	"programming.enabled=true", "programming.hostDir=" + hostDir, "programming.store=" + store,
	"config.programmingHookArgs={--lock-dir=" + cluster.Root + "/programming/lock,--log-file=" + hookLog + "}",
}

// installProgramming installs the chart with programming enabled.
func (s *scene) installProgramming(values ...string) {
	s.check(os.RemoveAll(filepath.Dir(hostDir)))
	s.cleanups = append(s.cleanups, func() {
		s.uninstall()
		s.check(errors.Join(os.RemoveAll(filepath.Dir(hostDir)), os.RemoveAll(specs)))
	})
	s.install(slices.Concat(programmingValues, []string{
		"config.mode=region", "config.cdiDir=" + specs, "test.interface=" + interfaceID, "test.afu=" + afuID,
	}, values)...)
}

// hostTool runs the accelerator-fpga binary that the chart has installed on the host.
func (s *scene) hostTool(args ...string) string {
	out, err := exec.CommandContext(s.ctx, hostDir+"/accelerator-fpga", args...).CombinedOutput()
	if err != nil {
		s.failf("accelerator-fpga %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// podWithPairs returns a pod that requests n devices of the region's resource. ids alternates between interfaces and
// AFUs; each pair becomes a pair of environment variables.
func (s *scene) podWithPairs(name string, n int64, ids ...string) *corev1.Pod {
	pod := s.pod(name, region, n)
	for i := 0; i < len(ids); i += 2 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprintf("FPGA_REGION_%d", i/2+1), Value: ids[i]},
			corev1.EnvVar{Name: fmt.Sprintf("FPGA_AFU_%d", i/2+1), Value: ids[i+1]})
	}
	return pod
}

// startFails creates a pod, waits for the hook to fail as in [scene.hookFails], and deletes the pod. The pod's name
// must be unique within the story.
func (s *scene) startFails(pod *corev1.Pod, words ...string) {
	s.create(pod)
	s.hookFails(pod.Name, words...)
	s.deletePods(pod.Name)
}

// hookFails waits until one of the pod's events ends with a line from the hook that contains all of the words. It
// returns the line.
func (s *scene) hookFails(pod string, words ...string) (line string) {
	await(s, "event of pod "+pod, func() (bool, error) {
		list, err := s.Client.CoreV1().Events(s.users).List(s.ctx, metav1.ListOptions{FieldSelector: "reason=Failed,involvedObject.name=" + pod})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		message := strings.TrimSpace(list.Items[0].Message)
		var ok bool
		if _, line, ok = strings.Cut(message, "stderr: "); !ok || strings.Contains(line, "\n") || !strings.HasPrefix(line, "accelerator-fpga hook: ") {
			s.failf("event of pod %s: found %q, want one line of the hook at its end", pod, message)
		}
		for _, want := range words {
			if !strings.Contains(line, want) {
				s.failf("event of pod %s: found %q, want %q in it", pod, line, want)
			}
		}
		return true, nil
	}, true)
	return line
}

// programming shows that a pod runs if its card has the AFU that the pod requests. If a pod doesn't run, its events say
// why.
func programming(s *scene) {
	s.plug(first)
	s.step("helm install with programming: the program is on the host, and not in the mounts of the daemon")
	s.installProgramming()
	s.awaitAdvertised(region, 1, 1)
	s.hostTool("version")
	same(s, "mounts of the daemon", s.daemonMounts("/host"+hostDir, store), map[string]string{})
	s.step("a pod whose card has the AFU runs")
	s.create(restarting(s.podWithPairs("user", 1, strings.ToUpper(interfaceID), afuID[:8]+"-"+afuID[8:])))
	s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	s.step("its container is restarted: the hook runs again")
	s.restartsWith("user", reportOf(firstID, "dfl-port.0"), 1)
	same(s, "events programming.present", s.countHookEvents("programming.present"), 2)

	s.plugCard(second, 1, -1, otherAFU)
	s.awaitAdvertised(region, 2, 2)
	s.step("a privileged pod, which has all devices of the host, requests that AFU: not on the other pod's card")
	s.hostNode("dfl-port.0")
	privileged, yes := s.podWithPairs("privileged", 1, interfaceID, afuID), true
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	s.startFails(privileged, "card "+secondID, "bitstream for interface "+interfaceID+" and AFU "+afuID+" in the store")
	s.step("it requests two cards of the region, but has one")
	privileged = s.podWithPairs("greedy", 1, interfaceID, otherAFU, interfaceID, afuID)
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	s.startFails(privileged, "FPGA_REGION_2", "request as many cards as the env has pairs", secondID)
	s.step("it requests the AFU of its own card: it runs, and has the device nodes of both")
	privileged = s.podWithPairs("modest", 1, interfaceID, otherAFU)
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	s.create(privileged)
	s.reachesPhase("modest", corev1.PodRunning)
	await(s, "nodes of the privileged pod", func() (map[string]string, error) {
		r, err := s.lastReport("modest", "main")
		return r.Nodes, err
	}, map[string]string{"dfl-port.0": "120:0", "dfl-port.1": "120:1"})
	s.deletePods("modest")
	s.awaitAdvertisedSoon(region, 2, 2)

	s.step("a pod without a pair does not start")
	s.startFails(s.podWithPairs("none", 1), "the container has no FPGA_REGION_n and FPGA_AFU_n")
	s.step("nor a pod that requests another interface")
	s.startFails(s.podWithPairs("interface", 1, otherInterface, otherAFU), "no card is left for interface "+otherInterface)
	s.step("nor a pod whose bitstream in the store is for another interface")
	const afu = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(store, interfaceID, afu+".gbs")
	s.check(os.MkdirAll(filepath.Dir(file), 0o755))
	s.check(os.WriteFile(file, bits.GBS(bits.Metadata(otherInterface, afu), make([]byte, 4096)), 0o644))
	s.startFails(s.podWithPairs("wrong", 1, interfaceID, afu), file, "for interface "+otherInterface, "install the file again")
	s.step("nor a pod whose bitstream could be changed by other users")
	s.check(os.Remove(file))
	given := filepath.Join(cluster.Root, "programming", "given.gbs")
	s.check(os.WriteFile(given, bits.GBS(bits.Metadata(interfaceID, afu), make([]byte, 4096)), 0o644))
	s.hostTool("install", "--store", store, given)
	s.check(os.Chmod(store, 0o777))
	s.startFails(s.podWithPairs("writable", 1, interfaceID, afu), store, "chmod go-w")
	s.check(os.Chmod(store, 0o755))
	s.step("nor a pod whose card cannot be programmed: it has no driver")
	s.startFails(s.podWithPairs("driver", 1, interfaceID, afu), secondID)
	s.step("the hook's log has all failures, and the command logs reads it")
	text := must(os.ReadFile(hookLog))
	if out := s.logsCommand(string(text), "--device", secondID, "--event", "programming.*"); bytes.Count(out, []byte("\n")) < 4 || !bytes.Contains(out, []byte("no bitstream for interface")) {
		s.failf("logs --device %s: found %s, want four failures", secondID, out)
	}
	s.step("the first pod still runs; then a pod gets both cards, each for its pair")
	s.reachesPhase("user", corev1.PodRunning)
	s.deletePods("user")
	s.awaitAdvertisedSoon(region, 2, 2)
	s.create(s.podWithPairs("both", 2, interfaceID, otherAFU, interfaceID, afuID))
	s.hasReport("both", reportOf(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	s.deletePods("both")
	s.step("another mode: no hook, a pod without a pair runs")
	s.mustHelm("upgrade", s.settings("config.mode=regiondevel", "config.cdiDir="+specs)...)
	s.daemon()
	// Ask the kubelet, because the node's status may still show the old daemon's list, which is withdrawn before the new
	// daemon sends its own.
	kubelet := s.kubelet()
	await(s, "devices of the new daemon", func() (int64, error) { return s.allocatableOf(s.ctx, kubelet, region) }, 2)
	s.create(s.pod("developer", region, 1))
	s.reachesPhase("developer", corev1.PodRunning)
}

// countHookEvents returns the number of lines with this event in the hook's log.
func (s *scene) countHookEvents(event string) int {
	text := must(os.ReadFile(hookLog))
	return bytes.Count(text, []byte(`"event":"`+event+`"`))
}

// hostNode creates one of the simulated node's device nodes in /dev, and removes it when the story ends. Privileged
// containers have access to every device node in /dev.
func (s *scene) hostNode(name string) {
	var st syscall.Stat_t
	s.check(syscall.Stat(filepath.Join(simulated, "dev", name), &st))
	path := filepath.Join("/dev", name)
	s.check(syscall.Mknod(path, syscall.S_IFCHR|0o600, int(st.Rdev)))
	s.cleanups = append(s.cleanups, func() { s.check(os.Remove(path)) })
}

// programmingUpgrade shows that the accelerator-fpga program on the host is complete at all times during an upgrade,
// and that it stays there after helm uninstall.
func programmingUpgrade(s *scene) {
	s.plug(first)
	s.step("helm install with programming")
	s.installProgramming()
	s.awaitAdvertised(region, 1, 1)
	s.step("helm test: its card has the AFU")
	s.mustHelm("test", "--timeout", "1m")
	s.create(s.podWithPairs("user", 1, interfaceID, afuID))
	s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	before := must(os.Stat(hostDir + "/accelerator-fpga"))
	s.step("helm upgrade to the next version: the program can be run at each moment")
	checks := s.alwaysRunnable(func() {
		s.upgradeTo("image.tag=" + nextVersion)
	})
	after := must(os.Stat(hostDir + "/accelerator-fpga"))
	same(s, "replaced", !os.SameFile(before, after), true)
	s.step("  %d checks", checks)
	s.step("a link in its place: the new pod does not start, the old one keeps running")
	old := s.daemon().Name
	s.check(os.Rename(hostDir+"/accelerator-fpga", hostDir+"/elsewhere"))
	s.check(os.Symlink("elsewhere", hostDir+"/accelerator-fpga"))
	_, err := s.helm("upgrade", s.chart(), "--reset-then-reuse-values", "--set", "podLabels.a=b", "--wait", "--timeout", "10s")
	s.refused("helm upgrade", err)
	await(s, "reason", func() (bool, error) { return s.initLogHas("want a regular file or none: remove it") }, true)
	s.reachesPhase("user", corev1.PodRunning)
	s.check(errors.Join(os.Remove(hostDir+"/accelerator-fpga"), os.Rename(hostDir+"/elsewhere", hostDir+"/accelerator-fpga")))
	s.replaces(old)
	s.step("helm uninstall: the program stays, the CDI spec is removed")
	s.uninstall()
	s.hostTool("version")
	left := must(filepath.Glob(specs + "/*.json"))
	same(s, "specs", left, nil)
	entries := must(os.ReadDir(hostDir))
	same(s, "files in the directory", len(entries), 1)
}

// initLogHas reports whether the log of one of the release's init containers contains these words.
func (s *scene) initLogHas(words string) (bool, error) {
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

// alwaysRunnable calls do and, while it runs, repeatedly checks that accelerator-fpga exists on the host and can be
// run. It returns the number of checks.
func (s *scene) alwaysRunnable(do func()) int {
	path, checks, ran := hostDir+"/accelerator-fpga", 0, 0
	var missing, failed error
	s.during(do, func(ctx context.Context) {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil && missing == nil {
			info, err := os.Lstat(path)
			switch {
			case err != nil:
				missing = err
			case info.Mode() != 0o755:
				missing = fmt.Errorf("%s: found mode %s, want a file of 0755", path, info.Mode())
			}
			checks++
			<-tick.C
		}
	}, func(ctx context.Context) {
		for ctx.Err() == nil && failed == nil {
			out, err := exec.CommandContext(ctx, path, "version").CombinedOutput()
			if err != nil && ctx.Err() == nil {
				failed = fmt.Errorf("%w: %s", err, out)
			}
			ran++
		}
	})
	s.check(errors.Join(missing, failed))
	if ran == 0 {
		s.failf("the program was run 0 times, want at least once")
	}
	return checks
}
