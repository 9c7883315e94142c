package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// holders shows that the log, a metric and the logs command all name the pods that hold a device.
func holders(s *scene) {
	s.begin(first)
	s.step("a pod gets a device: log and metric have the pod")
	s.userGets("user", firstID, "dfl-port.0")
	s.logged("device.held", line{"device": firstID, "resource": s.resource, "holders": "[default/user/main]"})
	s.hasHolderMetric("user", true)
	s.step("the card breaks: device.health has the pod")
	s.breakCard(first)
	s.logged("device.health", line{"device": firstID, "new": "unhealthy", "holders": "[default/user/main]"})
	s.healCard(first)
	s.step("the pod ends: the device is free")
	s.deletePods("user")
	s.logged("device.freed", line{"device": firstID, "holders": "[default/user/main]"})
	s.hasHolderMetric("user", false)
	s.awaitAdvertised(s.resource, 1, 1)
	s.step("a pod that ends at once is logged too")
	pod := s.pod("short", s.resource, 1)
	pod.Spec.Containers[0].Args = []string{"exit"}
	s.create(pod)
	s.reachesPhase("short", corev1.PodSucceeded)
	s.logged("device.held", line{"device": firstID, "holders": "[default/short/main]"})
	s.logged("device.freed", line{"device": firstID, "holders": "[default/short/main]"})
	s.deletePods("short")
	s.step("the card is pulled while the next pod holds it")
	s.userGets("next", firstID, "dfl-port.0")
	s.logged("device.held", line{"device": firstID, "holders": "[default/next/main]"})
	s.pullCard(first)
	s.health("next", map[string]string{firstID: "Unhealthy"})
	s.logged("device.removed", line{"device": firstID, "holders": "[default/next/main]"})
	s.logged("device.tombstone", line{"device": firstID})
	s.step("the next daemon logs the pod that held the device before its start")
	old := s.daemon().Name
	text := s.must("kubectl", "--namespace", namespace, "logs", old)
	s.restartDaemon()
	s.logged("device.held", line{"device": firstID, "holders": "[default/next/main]", "reason": "before the daemon started"})
	s.step("kubectl logs | accelerator-device-plugin logs: the holders of the card; one line for the pull")
	var events []string
	for scanner := bufio.NewScanner(bytes.NewReader(s.logsCommand(text, "-o", "json", "--device", firstID, "--event", "device.*"))); scanner.Scan(); {
		var l line
		s.check(json.Unmarshal(scanner.Bytes(), &l))
		events = append(events, l["event"].(string))
	}
	same(s, "first event", events[0], "device.added")
	same(s, "device.tombstone is shown", slices.Contains(events, "device.tombstone"), true)
	shown := string(s.logsCommand(text, "--device", firstID))
	for _, words := range []string{
		"in use by default/user/main", "no longer in use by default/user/main (after ", "in use by default/short/main",
		"in use by default/next/main", "gone, in use by default/next/main (was healthy for ",
	} {
		if !strings.Contains(shown, words) {
			s.failf("output of logs: want %q in it:\n%s", words, shown)
		}
	}
	_, since, _ := strings.Cut(shown, "in use by default/next/main")
	same(s, "warnings about the pulled card", strings.Count(since, firstID+strings.Repeat(" ", 15)+"! "), 1)
	s.step("... --summary")
	summary := string(s.logsCommand(text, "--summary"))
	for _, words := range []string{firstID, "default/next/main", "default/short/main"} {
		if !strings.Contains(summary, words) {
			s.failf("summary: want %q in it:\n%s", words, summary)
		}
	}
}

// hasHolderMetric waits until the holders metric has a series for a pod and the first card or, if want is false,
// doesn't have it.
func (s *scene) hasHolderMetric(pod string, want bool) {
	series := fmt.Sprintf(`accelerator_device_holder{container="main",device=%q,namespace="default",pod=%q,resource=%q} 1`, firstID, pod, s.resource)
	await(s, series, func() (bool, error) {
		page, err := s.Client.CoreV1().Pods(namespace).ProxyGet("http", s.daemon().Name, "9480", "/metrics", nil).DoRaw(s.ctx)
		return strings.Contains(string(page), series+"\n"), err
	}, want)
}

// logsCommand runs the logs command on a log with this content, and returns the command's output.
func (s *scene) logsCommand(text string, args ...string) []byte {
	binary := filepath.Join(s.dist, "bin_"+runtime.GOARCH, "accelerator-device-plugin")
	cmd := exec.CommandContext(s.ctx, binary, append([]string{"logs"}, args...)...)
	cmd.Stdin = strings.NewReader(text)
	out := must(cmd.Output())
	return out
}

// initHolds changes the AFU of a port that an init container holds. This is a special case, because only the kubelet's
// checkpoint lists init containers. No other pod gets the port until the pod has ended.
func initHolds(s *scene) {
	changed := afName(interfaceID, otherAFU)
	s.plug(first, second)
	s.install("config.mode=af")
	w := s.sample(&sampler{resources: []string{afResource, changed}})
	w.shows(time.Now(), offers{afResource: {deviceName(firstID), deviceName(secondID)}})
	pod := s.pod("user", afResource, 1)
	before := pod.Spec.Containers[0]
	before.Name = "before"
	pod.Spec.InitContainers, pod.Spec.Containers[0].Resources = []corev1.Container{before}, corev1.ResourceRequirements{}
	s.create(pod)
	id := s.reportIn("user", "before").Env["ACCELERATOR_DEVICES"]
	held, free := deviceName(id), deviceName(map[string]string{firstID: secondID, secondID: firstID}[id])

	s.step("the AFU of its port changes: for a minute nobody else gets it")
	s.create(s.pod("next", changed, 1))
	s.unschedulable("next")
	began := s.hardware(func(n *simnode.Node) error { return n.Reprogram("0000:"+id, 0, otherAFU) })
	w.shows(began, offers{afResource: {free}})
	s.hasReasons(map[string][]string{id: {"replaced-in-use"}})
	s.wait(time.Minute)
	s.step("nor for another minute, after a restart of the daemon")
	s.restartDaemon()
	w.shows(time.Now(), offers{afResource: {free}})
	s.hasReasons(map[string][]string{id: {"replaced-in-use"}})
	s.wait(time.Minute)
	w.withheld(began.Add(time.Second), held)
	s.unschedulable("next")

	s.step("its pod ends: the port is offered within %v", soon)
	s.deletePods("user")
	ended := time.Now()
	took := w.shows(ended, offers{afResource: {free}, changed: {held}}).Sub(ended)
	s.step("  after %.1f s", took.Seconds())
	if took > soon {
		s.failf("port offered after %v, want at most %v", took, soon)
	}
	s.reachesPhase("next", corev1.PodRunning)
	same(s, "device of the next pod", s.deviceOf("next"), held)
	w.end()
}

// withheld ends the story if a device has been offered under any name since the given time.
func (w *sampler) withheld(since time.Time, device string) {
	for _, state := range w.since(since) {
		for name, devices := range state.offers {
			if slices.Contains(devices, device) {
				w.s.failf("%s was offered as %s %.1f s after the begin, want it withheld", device, name, state.at.Sub(since).Seconds())
			}
		}
	}
}

// afName returns the resource name in af mode for an AFU on an interface.
func afName(region, afu string) string {
	ids, _ := hex.DecodeString(region + afu)
	return fmt.Sprintf("fpga.intel.com/af-%s.%s.%s", region[:3], afu[:3], base64.RawURLEncoding.EncodeToString(ids))
}

// kubeletBlind restarts the kubelet while the API server is down, so the kubelet doesn't know its pods. One of these
// pods holds a device under an old name, and the device must stay withheld.
func kubeletBlind(s *scene) {
	other := s.resource + "-other"
	s.plug(first, second)
	s.install()
	w := s.sample(&sampler{resources: []string{s.resource, other}, outage: true})
	all := deviceNames{deviceName(firstID), deviceName(secondID)}
	w.shows(time.Now(), offers{s.resource: all})
	s.user("user")
	s.reachesPhase("user", corev1.PodRunning)
	id, held := s.anyReport("user").Env["ACCELERATOR_DEVICES"], s.deviceOf("user")
	free := all.without(held)
	s.step("helm upgrade to another name: the device stays withheld")
	s.mustHelm("upgrade", s.settings("config.resourceName="+other)...)
	w.shows(time.Now(), offers{other: free})
	s.hasReasons(map[string][]string{id: {"replaced-in-use"}})

	s.step("the API server ends, and the kubelet restarts: the other device is offered")
	s.cleanups = append(s.cleanups, func() {
		if _, err := s.Node(s.ctx); err != nil {
			s.check(s.StartAPIServer(s.ctx))
		}
	})
	s.check(s.StopAPIServer())
	s.check(s.StopKubelet())
	began := time.Now()
	s.check(s.StartKubelet())
	s.step("  after %.1f s", w.shows(began, offers{other: free}).Sub(began).Seconds())
	s.step("for a minute the device of the pod, which the kubelet does not list, is not offered")
	kubelet := s.kubelet()
	for range 6 {
		s.wait(10 * time.Second)
		listed := must(w.holders(s.ctx, kubelet))
		same(s, "pods that the kubelet lists", len(listed), 0)
	}
	w.withheld(began, held)

	s.step("the API server is back: the device is not offered before the pod ends")
	s.check(s.StartAPIServer(s.ctx))
	s.wait(soon)
	w.withheld(began, held)
	s.reachesPhase("user", corev1.PodRunning)
	s.step("the pod ends: the device is offered within %v", soon)
	s.deletePods("user")
	ended := time.Now()
	took := w.shows(ended, offers{other: all}).Sub(ended)
	s.step("  after %.1f s", took.Seconds())
	if took > soon {
		s.failf("device offered after %v, want at most %v", took, soon)
	}
	w.end()
}

// heldTwice shows how the daemon reacts when the kubelet reports that two containers hold the same device. A stand-in
// for the pod-resources API simulates this by adding the device to another container in the kubelet's responses.
func heldTwice(s *scene) {
	s.plug(first, second)
	s.install("events=true")
	s.awaitAdvertised(s.resource, 2, 2)
	s.user("user")
	s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	s.user("other")
	s.hasReport("other", reportOf(secondID, "dfl-port.1"))

	s.step("the kubelet names both pods for the first device: log, Events, metric, devices")
	end := s.answersTwice("other", firstID)
	both := []string{"default/other/main", "default/user/main"}
	s.hasReasons(map[string][]string{firstID: {"held-twice"}})
	s.awaitAdvertised(s.resource, 2, 1)
	s.logged("device.held-twice", line{"level": "error", "device": firstID, "holders": both})
	for _, name := range []string{"user", "other"} {
		pod, err := s.readPod(name)
		s.check(err)
		s.hasEvent(corev1.ObjectReference{Kind: "Pod", Namespace: s.users, Name: name, UID: pod.UID}, "DeviceHeldTwice", corev1.EventTypeWarning)
	}
	series := fmt.Sprintf(`accelerator_device_reason{device=%q,reason="held-twice"`, firstID)
	await(s, series, func() (bool, error) {
		page, err := s.Client.CoreV1().Pods(namespace).ProxyGet("http", s.daemon().Name, "9480", "/metrics", nil).DoRaw(s.ctx)
		return strings.Contains(string(page), series), err
	}, true)
	if table := s.exec("devices", "-o", "wide"); !strings.Contains(table, both[0]) || !strings.Contains(table, both[1]) {
		s.failf("devices -o wide: want %q in it:\n%s", both, table)
	}

	s.step("one of the pods is deleted: the device is healthy")
	s.deletePods("other")
	s.logged("device.held-once", line{"device": firstID})
	s.hasReasons(map[string][]string{})
	s.awaitAdvertised(s.resource, 2, 2)
	end()
	s.deletePods("user")
}

// answersTwice puts a stand-in in front of the kubelet's pod-resources API until end is called. The stand-in forwards
// the kubelet's responses, but adds the device to the pod's first container.
func (s *scene) answersTwice(pod, id string) (end func()) {
	const socket = "/var/lib/kubelet/pod-resources/kubelet.sock"
	kubelet := s.kubelet()
	_, err := kubelet.List(s.ctx, &podresources.ListPodResourcesRequest{}) // connect before the socket is moved away
	s.check(err)
	s.check(os.Rename(socket, socket+".kubelet"))
	listener, err := net.Listen("unix", socket)
	s.check(err)
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, &twice{kubelet: kubelet, resource: s.resource, pod: pod, id: id})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	end = sync.OnceFunc(func() {
		server.Stop() // removes the socket
		s.check(<-served)
		s.check(os.Rename(socket+".kubelet", socket))
	})
	s.cleanups = append(s.cleanups, end)
	return end
}

// twice forwards List requests to the kubelet, and adds a device to one of the pods in the response.
type twice struct {
	podresources.UnimplementedPodResourcesListerServer
	kubelet           podresources.PodResourcesListerClient
	resource, pod, id string
}

func (t *twice) List(ctx context.Context, r *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	answer, err := t.kubelet.List(ctx, r)
	for _, p := range answer.GetPodResources() {
		if p.Name == t.pod {
			p.Containers[0].Devices = append(p.Containers[0].Devices, &podresources.ContainerDevices{ResourceName: t.resource, DeviceIds: []string{t.id}})
		}
	}
	return answer, err
}
