package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

const (
	// draDriver is the name of the DRA driver and of its DeviceClass, and the domain of the driver's attributes.
	draDriver = "accelerator.b-com.com"
	// draImage is the driver's image.
	draImage = "accelerator-dra-driver"

	// The kubelet's directories for the driver. draPlugin also contains the prepared claims.
	draPlugin   = "/var/lib/kubelet/plugins/" + draDriver
	draRegistry = "/var/lib/kubelet/plugins_registry"
)

// installDRA installs the chart with the DRA driver, and waits until the driver is ready. At the end of the story, it
// checks that there are no claims left on the node.
func (s *scene) installDRA(values ...string) {
	s.install(s.draValues(values...)...)
	s.cleanups = append(s.cleanups, s.removeClaims)
}

// draValues returns the Helm values that select the DRA driver, followed by the given ones.
func (s *scene) draValues(values ...string) []string {
	return append([]string{"api=dra", "config.cdiDir=" + specs}, values...)
}

// removeClaims deletes the story's Deployments, pods and claims, in that order. It then checks that the driver has
// removed everything it had prepared.
func (s *scene) removeClaims() {
	all := metav1.ListOptions{}
	s.check(s.Client.AppsV1().Deployments(s.users).DeleteCollection(s.ctx, metav1.DeleteOptions{}, all))
	await(s, "pods left", func() (int, error) {
		// Delete the pods again in each round, because a ReplicaSet that hasn't been deleted yet replaces them.
		if err := s.Client.CoreV1().Pods(s.users).DeleteCollection(s.ctx, metav1.DeleteOptions{}, all); err != nil {
			return -1, err
		}
		pods, err := s.Client.CoreV1().Pods(s.users).List(s.ctx, all)
		return len(pods.Items), err
	}, 0)
	s.check(s.Client.ResourceV1().ResourceClaimTemplates(s.users).DeleteCollection(s.ctx, metav1.DeleteOptions{}, all))
	s.check(s.Client.ResourceV1().ResourceClaims(s.users).DeleteCollection(s.ctx, metav1.DeleteOptions{}, all))
	await(s, "claims left", func() (int, error) {
		claims, err := s.Client.ResourceV1().ResourceClaims(s.users).List(s.ctx, all)
		return len(claims.Items), err
	}, 0)
	s.prepared(0)
}

// hardware calls change to change the simulated node, and returns the time right before that.
func (s *scene) hardware(change func(*simnode.Node) error) time.Time {
	node := must(simnode.Open(s.ctx, simulated))
	began := time.Now()
	s.check(errors.Join(change(node), node.Close()))
	return began
}

// breakCard breaks a card's first port, and returns the time right before that.
func (s *scene) breakCard(address string) time.Time {
	return s.hardware(func(n *simnode.Node) error { return n.Break(address, "port-ap6") })
}

// healCard heals a card's first port, and returns the time right before that.
func (s *scene) healCard(address string) time.Time {
	return s.hardware(func(n *simnode.Node) error { return n.Heal(address) })
}

// plugCard plugs in a card with the given number of ports and AFU, and returns the time right before that. numa is the
// card's NUMA node, or -1 if it doesn't have one.
func (s *scene) plugCard(address string, ports, numa int, afu string) time.Time {
	return s.hardware(func(n *simnode.Node) error {
		return n.Plug(simnode.Card{Address: address, Ports: ports, AFUID: afu, InterfaceID: interfaceID, NUMANode: numa})
	})
}

// pullCard pulls a card, and returns the time right before that.
func (s *scene) pullCard(address string) time.Time {
	return s.hardware(func(n *simnode.Node) error { return n.Unplug(address) })
}

// deviceName returns the DRA API's name for the device with this ID.
func deviceName(id string) string {
	if strings.Count(id, ":") == 1 {
		id = "0000:" + id
	}
	return "pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(id)
}

// offered is a set of devices in slices. It maps each device's name to its taint, as REASON:EFFECT, or to "" if the
// device doesn't have one. Reasons of the form recovering.CAUSE are shortened to recovering.
type offered map[string]string

// offer returns a set of the devices with these IDs, without taints.
func offer(ids ...string) offered {
	devices := offered{}
	for _, id := range ids {
		devices[deviceName(id)] = ""
	}
	return devices
}

// with returns a copy of the set in which the device with this ID has this taint. It adds the device if necessary.
func (o offered) with(id, taint string) offered {
	o = maps.Clone(o)
	o[deviceName(id)] = taint
	return o
}

// devices returns the set of all devices in these slices.
func devices(published map[string]*resourceapi.ResourceSlice) offered {
	devices := offered{}
	for _, slice := range published {
		for _, device := range slice.Spec.Devices {
			var taints []string
			for _, taint := range device.Taints {
				reason, _, _ := strings.Cut(taint.Value, ".")
				taints = append(taints, reason+":"+string(taint.Effect))
			}
			devices[device.Name] = strings.Join(taints, " ")
		}
	}
	return devices
}

// followSlices starts to record the driver's slices for the node.
func (s *scene) followSlices() published {
	return published{s, follow[*resourceapi.ResourceSlice](s, s.Client.ResourceV1().ResourceSlices().Watch,
		metav1.ListOptions{FieldSelector: "spec.driver=" + draDriver + ",spec.nodeName=" + cluster.NodeName})}
}

// published is a record of the driver's slices.
type published struct {
	s *scene
	*record[*resourceapi.ResourceSlice]
}

// shows waits until the slices contain exactly these devices. It ignores states before the given time, and returns the
// time of the first match. On Kubernetes versions without taints, the slices must not contain the devices that have a
// taint in want.
func (p published) shows(since time.Time, want offered) time.Time {
	if p.s.minor < taints {
		want = maps.Clone(want)
		maps.DeleteFunc(want, func(_, taint string) bool { return taint != "" })
	}
	last := offered{}
	return p.until(p.s, fmt.Sprintf("devices %v in the slices", want), since, func(slices map[string]*resourceapi.ResourceSlice) bool {
		last = devices(slices)
		return maps.Equal(last, want)
	})
}

// taints waits until a device has a taint with the effect NoExecute. It ignores states before the given time, and
// returns the time of the first match.
func (p published) taints(since time.Time, id string) time.Time {
	return p.until(p.s, "taint of "+id, since, func(slices map[string]*resourceapi.ResourceSlice) bool {
		return strings.HasSuffix(devices(slices)[deviceName(id)], ":NoExecute")
	})
}

// keep checks that the slices have contained exactly these devices, without taints, ever since the given time. It
// returns the number of states checked.
func (p published) keep(since time.Time, want offered) int {
	states := p.since(p.s, since)
	for _, st := range states {
		if found := devices(st.objects); !maps.Equal(found, want) {
			p.s.failf("devices in the slices: found %v, %v after the begin, want %v at all times", found, st.at.Sub(since), want)
		}
	}
	return len(states)
}

// followPods records the story's pods.
func (s *scene) followPods() podRecord {
	return podRecord{s, follow[*corev1.Pod](s, s.Client.CoreV1().Pods(s.users).Watch, metav1.ListOptions{})}
}

// podRecord is a record of the story's pods.
type podRecord struct {
	s *scene
	*record[*corev1.Pod]
}

// runs waits until a pod is running. It ignores states before the given time, and returns the time of the first match.
func (p podRecord) runs(since time.Time, name string) time.Time {
	return p.until(p.s, "pod "+name+" that runs", since, func(pods map[string]*corev1.Pod) bool {
		pod, ok := pods[name]
		return ok && pod.Status.Phase == corev1.PodRunning
	})
}

// marked waits until a pod is marked for deletion or gone. It ignores states before the given time, and returns the
// time of the first match.
func (p podRecord) marked(since time.Time, name string) time.Time {
	return p.until(p.s, "pod "+name+" that is marked for deletion", since, func(pods map[string]*corev1.Pod) bool {
		pod, ok := pods[name]
		return !ok || pod.DeletionTimestamp != nil
	})
}

// gone waits until a pod is gone. It ignores states before the given time, and returns the time of the first match.
func (p podRecord) gone(since time.Time, name string) time.Time {
	return p.until(p.s, "pod "+name+" that is gone", since, func(pods map[string]*corev1.Pod) bool {
		return pods[name] == nil
	})
}

// times lists how long each round of a measurement took.
type times []time.Duration

// String returns the median and the maximum.
func (t times) String() string {
	return fmt.Sprintf("median %d ms, max %d ms of %d", t.median().Milliseconds(), slices.Max(t).Milliseconds(), len(t))
}

func (t times) median() time.Duration { return slices.Sorted(slices.Values(t))[len(t)/2] }

// measured prints times as a step, along with the target for their median (0 means no target). The story doesn't fail
// if the target is missed, because the machine may be busy.
func (s *scene) measured(name string, t times, aim time.Duration) {
	text := ""
	switch {
	case aim > 0 && t.median() > aim:
		text = fmt.Sprintf(", ABOVE the aim of %v", aim)
	case aim > 0:
		text = fmt.Sprintf(" (aim %v)", aim)
	}
	s.step("  %s: %v%s", name, t, text)
}

// request returns a request with this name for n devices that match a CEL expression. "" matches every device.
func request(name string, n int64, expression string) resourceapi.DeviceRequest {
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: draDriver, Count: n}
	if expression != "" {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: exactly}
}

// one requests any device.
func one() resourceapi.DeviceClaim {
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request("card", 1, "")}}
}

// selects returns a claim for one device that matches a CEL expression.
func selects(expression string) resourceapi.DeviceClaim {
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request("card", 1, expression)}}
}

// tolerating returns a claim for one device that tolerates the device's taints, so that its pods aren't evicted. In
// Kubernetes 1.37, a toleration has to specify the effect to prevent eviction.
func tolerating() resourceapi.DeviceClaim {
	devices := one()
	devices.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{
		{Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute},
	}
	return devices
}

// attribute returns a CEL expression for one of the driver's attributes.
func attribute(name string) string { return fmt.Sprintf("device.attributes[%q].%s", draDriver, name) }

// claim creates a claim.
func (s *scene) claim(name string, devices resourceapi.DeviceClaim) {
	_, err := s.Client.ResourceV1().ResourceClaims(s.users).Create(s.ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimSpec{Devices: devices},
	}, metav1.CreateOptions{})
	s.check(err)
}

// template creates a ResourceClaimTemplate.
func (s *scene) template(name string, devices resourceapi.DeviceClaim) {
	_, err := s.Client.ResourceV1().ResourceClaimTemplates(s.users).Create(s.ctx, &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: devices}},
	}, metav1.CreateOptions{})
	s.check(err)
}

// claimant returns a pod whose container uses existing claims.
func (s *scene) claimant(name string, claims ...string) *corev1.Pod {
	pod := s.pod(name, "", 0)
	main := &pod.Spec.Containers[0]
	main.Resources = corev1.ResourceRequirements{}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
		main.Resources.Claims = append(main.Resources.Claims, corev1.ResourceClaim{Name: claim})
	}
	return pod
}

// templated returns a pod whose container uses a claim that is created from a template.
func (s *scene) templated(name, template string) *corev1.Pod {
	pod := s.claimant(name, template)
	pod.Spec.ResourceClaims[0].ResourceClaimName, pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = nil, &template
	return pod
}

// deployment creates a Deployment with one pod, which uses a claim that is created from a template.
func (s *scene) deployment(name, template string) {
	s.apply(deployment(s.templated(name, template)))
}

// claimed creates a claim and a pod with the same name that uses it.
func (s *scene) claimed(name string, devices resourceapi.DeviceClaim) {
	s.claim(name, devices)
	s.create(s.claimant(name, name))
}

// deleteClaimed deletes pods and the claims with the same names, and waits until all of them are gone.
func (s *scene) deleteClaimed(names ...string) {
	s.deletePods(names...)
	for _, name := range names {
		s.check(s.Client.ResourceV1().ResourceClaims(s.users).Delete(s.ctx, name, metav1.DeleteOptions{}))
	}
	await(s, "claims left", func() (int, error) {
		claims, err := s.Client.ResourceV1().ResourceClaims(s.users).List(s.ctx, metav1.ListOptions{})
		left := slices.DeleteFunc(claims.Items, func(c resourceapi.ResourceClaim) bool { return !slices.Contains(names, c.Name) })
		return len(left), err
	}, 0)
}

// draReport returns the report expected from a container that has these device nodes and has got all of these devices
// through a single request.
func draReport(ids string, nodes ...string) report {
	r := reportOf(ids, nodes...)
	for _, id := range strings.Split(ids, ",") {
		r.Env["ACCELERATOR_DEVICE_"+strings.ToUpper(strings.ReplaceAll(deviceName(id), "-", "_"))] = id
	}
	return r
}

// hasDevices is like [scene.hasReport], but for a container with several requests or claims. It ignores
// ACCELERATOR_UNITS and ACCELERATOR_DEVICES, because they list only one request's devices.
func (s *scene) hasDevices(name string, want report) {
	s.reachesPhase(name, corev1.PodRunning)
	some := func(r report, err error) (report, error) {
		r.Env = maps.Clone(r.Env)
		delete(r.Env, "ACCELERATOR_UNITS")
		delete(r.Env, "ACCELERATOR_DEVICES")
		return r, err
	}
	want, _ = some(want, nil)
	await(s, "report of pod "+name, func() (report, error) { return some(s.lastReport(name, "main")) }, want)
}

// cannotPrepare waits until the kubelet reports in an event that it couldn't prepare one of the pod's claims. It
// returns the event's message, which must contain all of these strings.
func (s *scene) cannotPrepare(name string, texts ...string) string {
	message := ""
	await(s, "event of pod "+name, func() (bool, error) {
		events, err := s.unprepared(name)
		if err != nil || len(events) == 0 {
			return false, err
		}
		message = events[len(events)-1].Message
		return true, nil
	}, true)
	s.refused("pod "+name, errors.New(message), texts...)
	return message
}

// unprepared returns the events in which the kubelet says that it couldn't prepare a claim of the pod, or of any pod if
// pod is "". It leaves out events caused by a race in Kubernetes 1.37: the kubelet may request a new pod's claim before
// the API server's node authorizer knows that the pod is bound to the node. The kubelet retries at the next sync.
func (s *scene) unprepared(pod string) ([]corev1.Event, error) {
	selector := "reason=FailedPrepareDynamicResources"
	if pod != "" {
		selector += ",involvedObject.name=" + pod
	}
	events, err := s.Client.CoreV1().Events(s.users).List(s.ctx, metav1.ListOptions{FieldSelector: selector})
	return slices.DeleteFunc(events.Items, func(e corev1.Event) bool {
		return strings.Contains(e.Message, "no relationship found between node")
	}), err
}

// claimHealth waits until a pod's status shows the given health for its claims' devices. want is keyed by device ID.
// Kubernetes versions before 1.36 must not show any health.
func (s *scene) claimHealth(name string, want map[string]string) {
	byName := map[string]string{}
	if s.minor < taints {
		want = nil
	}
	for id, health := range want {
		byName[deviceName(id)] = health
	}
	s.health(name, byName)
}

// cutDevice splits a CDI device's name into a prefix and the name of the driver's device, which comes last.
func cutDevice[T ~string](name T) (before, device T) {
	i := max(0, strings.Index(string(name), "-pci-")+1)
	return name[:i], name[i:]
}

// cdiDevices returns the sorted names of the claims' CDI devices.
func (s *scene) cdiDevices() ([]string, error) {
	files, err := filepath.Glob(specs + "/*.json")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var spec struct {
			Kind    string
			Devices []struct{ Name string }
		}
		if err := json.Unmarshal(text, &spec); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if spec.Kind != draDriver+"/claim" { // the device plugin's spec
			continue
		}
		for _, device := range spec.Devices {
			found = append(found, device.Name)
		}
	}
	slices.Sort(found)
	return found, nil
}

// sockets returns the paths of the driver's sockets on the node.
func sockets() []string {
	var found []string
	for _, pattern := range []string{draPlugin + "/*.sock", draRegistry + "/" + draDriver + "*.sock"} {
		files, _ := filepath.Glob(pattern)
		found = append(found, files...)
	}
	return found
}

// allocated returns the sorted names of the devices allocated to a claim.
func (s *scene) allocated(claim string) ([]string, error) {
	object, err := s.Client.ResourceV1().ResourceClaims(s.users).Get(s.ctx, claim, metav1.GetOptions{})
	if err != nil || object.Status.Allocation == nil {
		return nil, err
	}
	var names []string
	for _, result := range object.Status.Allocation.Devices.Results {
		names = append(names, result.Device)
	}
	slices.Sort(names)
	return names, nil
}

// apiRequests returns how many requests for slices and claims the API server has answered, not counting watches. The
// result is keyed by the series of the API server's metric.
func (s *scene) apiRequests() map[string]string {
	text := must(s.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.ctx))
	found := map[string]string{}
	for l := range strings.Lines(string(text)) {
		if !strings.HasPrefix(l, "apiserver_request_total{") || strings.Contains(l, `verb="WATCH"`) {
			continue
		}
		if series, value, _ := strings.Cut(strings.TrimSpace(l), "} "); strings.Contains(series, `resource="resourceslices"`) || strings.Contains(series, `resource="resourceclaims"`) {
			found[series] = value
		}
	}
	return found
}
