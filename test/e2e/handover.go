package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// A sampler takes a sample every sampleInterval. It lists the kubelet's pods only with every podsEvery-th sample,
// because the kubelet limits its pod-resources API to 100 calls per second across all clients, including the daemon.
const (
	sampleInterval = 20 * time.Millisecond
	podsEvery      = 5
	longestGap     = time.Second // between samples, on a shared machine
)

// wholeCards is the name under which a sample lists those of the driver's devices that are cards with several ports, as
// in region mode. The driver's other devices are listed under draDriver.
const wholeCards = draDriver + "/card"

// deviceNames is a sorted set of device names.
type deviceNames []string

// offers maps the name of a resource, or of the driver, to the devices offered under that name. This includes devices
// that a pod already holds under the same name. Names without devices are left out.
type offers map[string]deviceNames

// glimpse is a sample. For each resource, it contains the devices that the kubelet's device manager lists as healthy
// (GetAllocatableResources in the pod-resources API). For the driver, it contains the untainted devices in
// ResourceSlices, which are listed from the API server without a resource version.
type glimpse struct {
	at     time.Time
	offers offers
	nodes  map[string][]string // numbers (MAJOR:MINOR) of the device nodes inside containers, mapped to their pods' names
}

// held maps the name of a resource, or of the driver, to its devices, and each device to the pod that holds it
// according to the kubelet.
type held map[string]map[string]string

// noSlices waits until the kubelet has deleted earlier stories' slices. The driver can't delete them, because it lost
// its permissions when those stories uninstalled the release. A story's own daemons don't know about these slices,
// because the story starts without a state directory.
func (s *scene) noSlices() {
	await(s, "slices of an earlier story", func() (int, error) {
		all, err := s.Client.ResourceV1().ResourceSlices().List(s.ctx, metav1.ListOptions{})
		return len(all.Items), err
	}, 0)
}

// portsOf returns the ports that make up a device that is offered under this name. In region mode, a device is a card
// with all its ports, and the cards in the stories have at most two ports each.
func portsOf(name, device string) deviceNames {
	if name == wholeCards || strings.Contains(name, "/region-") {
		return deviceNames{device, device + "-p1"}
	}
	return deviceNames{device}
}

// judge returns what is wrong with a sample. A port must not be offered under two names at once, even if nothing holds
// it. A port that is held under one name must be neither offered nor held under another. A device node must not be
// inside two pods. before and after are the lists of pods closest to the sample; a device counts as held only if both
// contain it. In these lists, all of the driver's devices have the same name.
func judge(sample glimpse, before, after held) []string {
	var wrong []string
	offered, holds := map[string]string{}, map[string]string{} // port to name; port to pod and name
	for _, name := range slices.Sorted(maps.Keys(sample.offers)) {
		for _, device := range sample.offers[name] {
			for _, port := range portsOf(name, device) {
				if other, ok := offered[port]; ok {
					wrong = append(wrong, fmt.Sprintf("%s is offered as %s and as %s", port, other, name))
				}
				offered[port] = name
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		for device, pod := range after[name] {
			for _, port := range portsOf(name, device) {
				other, ok := offered[port]
				if ok && strings.TrimSuffix(other, "/card") != name && before[name][device] == pod {
					wrong = append(wrong, fmt.Sprintf("%s is offered as %s, and pod %s holds it as %s", port, other, pod, name))
				}
				if other, ok := holds[port]; ok {
					wrong = append(wrong, fmt.Sprintf("%s is held by pod %s, and by pod %s as %s", port, other, pod, name))
				}
				holds[port] = pod + " as " + name
			}
		}
	}
	for node, pods := range sample.nodes {
		if len(pods) > 1 {
			wrong = append(wrong, fmt.Sprintf("device node %s is inside of the pods %s", node, strings.Join(pods, ", ")))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// sampler samples, until the story ends, which devices are offered under which names.
type sampler struct {
	resources []string
	inSlices  bool          // whether to also sample slices
	awayLimit time.Duration // how long a free port can go without being offered under any name; 0 means no limit
	outage    bool          // whether samples may be missing because the story restarts the kubelet

	s     *scene
	stop  func()
	began time.Time

	mu       sync.Mutex
	last     glimpse
	held     held
	inside   insides
	count    int
	gap      time.Duration
	failed   int   // samples that couldn't be read
	err      error // the first error
	states   []glimpse
	pending  []glimpse // states since the last list of pods
	most     int       // largest number of pods that had a device node at once
	wrong    []string
	absences absences
}

// sampleBoth samples both APIs: the story's resource and the slices.
func (s *scene) sampleBoth() *sampler {
	return s.sample(&sampler{resources: []string{s.resource}, inSlices: true})
}

// sample starts a sampler. The cards must already be plugged in.
func (s *scene) sample(w *sampler) *sampler {
	ctx, cancel := context.WithCancel(s.ctx)
	w.s, w.began, w.inside, w.absences = s, time.Now(), insides{}, absences{ports: s.ports()}
	kubelet := s.kubelet()
	var task sync.WaitGroup
	task.Go(func() {
		tick := time.NewTicker(sampleInterval)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			w.take(ctx, kubelet, n%podsEvery == 0)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	w.stop = func() { cancel(); task.Wait() }
	s.cleanups = append(s.cleanups, w.stop)
	return w
}

// ports returns the port to which each device node of all cards belongs, keyed by the node's number.
func (s *scene) ports() map[string]string {
	ports := map[string]string{}
	s.hardware(func(n *simnode.Node) error {
		for _, d := range n.Devices() {
			if _, number, ok := strings.Cut(d.Node, "dfl-port."); ok {
				ports["120:"+number] = deviceName(d.ID)
			}
		}
		return nil
	})
	return ports
}

// take takes a sample.
func (w *sampler) take(ctx context.Context, kubelet podresources.PodResourcesListerClient, pods bool) {
	sample := glimpse{at: time.Now()}
	var now held
	var reads sync.WaitGroup
	var inSlices offers
	var failed error
	if w.inSlices {
		reads.Go(func() { inSlices, failed = w.s.untainted(ctx) })
	}
	var err error
	sample.offers, err = w.listed(ctx, kubelet)
	sample.nodes = w.inside.read()
	reads.Wait()
	err = errors.Join(err, failed)
	if pods && err == nil { // list the pods after the sample
		now, err = w.holders(ctx, kubelet)
	}
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if w.failed++; w.failed == 1 {
			w.err = err
		}
		return
	}
	maps.Copy(sample.offers, inSlices)
	if w.count++; w.count > 1 {
		w.gap = max(w.gap, sample.at.Sub(w.last.at))
	}
	if !sample.offers.equal(w.last.offers) || w.count == 1 {
		w.states = append(w.states, sample)
	}
	w.last = sample
	w.pending = append(w.pending, sample)
	if !pods {
		return
	}
	for _, p := range w.pending {
		w.most = max(w.most, podsWith(p.nodes))
		wrong := judge(p, w.held, now)
		if away := w.absences.note(p, w.held, w.awayLimit); w.awayLimit > 0 {
			wrong = append(wrong, away...)
		}
		for _, text := range wrong {
			w.wrong = append(w.wrong, fmt.Sprintf("%.3f s: %s", p.at.Sub(w.began).Seconds(), text))
		}
	}
	w.pending, w.held = nil, now
}

// listed returns the devices that the kubelet's device manager lists as healthy, keyed by resource.
func (w *sampler) listed(ctx context.Context, kubelet podresources.PodResourcesListerClient) (offers, error) {
	all, err := kubelet.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, err
	}
	found := offers{}
	for _, devices := range all.Devices {
		if slices.Contains(w.resources, devices.ResourceName) {
			for _, id := range devices.DeviceIds {
				found[devices.ResourceName] = append(found[devices.ResourceName], deviceName(id))
			}
			slices.Sort(found[devices.ResourceName])
		}
	}
	return found, nil
}

// untainted returns the devices in the driver's slices that new pods can get.
func (s *scene) untainted(ctx context.Context) (offers, error) {
	all, err := s.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.driver=" + draDriver + ",spec.nodeName=" + cluster.NodeName,
	})
	if err != nil {
		return nil, err
	}
	found := offers{}
	for _, slice := range all.Items {
		for _, device := range slice.Spec.Devices {
			if !slices.ContainsFunc(device.Taints, func(t resourceapi.DeviceTaint) bool { return t.Effect != resourceapi.DeviceTaintEffectNone }) {
				found[formOf(device)] = append(found[formOf(device)], device.Name)
			}
		}
	}
	for _, devices := range found {
		slices.Sort(devices)
	}
	return found, nil
}

// formOf returns the name for one of the driver's devices: wholeCards for a card with several ports, which doesn't have
// a single AFU, and draDriver for everything else.
func formOf(device resourceapi.Device) string {
	if _, ok := device.Attributes["afuId"]; ok {
		return draDriver
	}
	return wholeCards
}

// holders returns the pods that hold devices of the sampler's resources or of the driver.
func (w *sampler) holders(ctx context.Context, kubelet podresources.PodResourcesListerClient) (held, error) {
	h := held{}
	add := func(name, device, pod string) {
		if h[name] == nil {
			h[name] = map[string]string{}
		}
		h[name][device] = pod
	}
	list, err := kubelet.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	for _, pod := range list.PodResources {
		for _, container := range pod.Containers {
			for _, devices := range container.Devices {
				for _, id := range devices.DeviceIds {
					if slices.Contains(w.resources, devices.ResourceName) {
						add(devices.ResourceName, deviceName(id), pod.Name)
					}
				}
			}
			for _, claim := range container.DynamicResources {
				for _, device := range claim.ClaimResources {
					if device.DriverName == draDriver {
						add(draDriver, device.DeviceName, pod.Name)
					}
				}
			}
		}
	}
	return h, nil
}

// reaches waits until the story's resource and the slices offer these devices. It ignores samples before the given
// time, and returns the time of the first match.
func (w *sampler) reaches(since time.Time, list, inSlices deviceNames) time.Time {
	return w.shows(since, w.both(list, inSlices))
}

// both returns the offers in which the story's resource has the devices in list, and the driver has those in inSlices.
func (w *sampler) both(list, inSlices deviceNames) offers {
	o := offers{w.s.resource: list, draDriver: inSlices}
	maps.DeleteFunc(o, func(_ string, d deviceNames) bool { return len(d) == 0 })
	return o
}

// shows waits until a sample contains exactly these offers. It ignores samples before the given time, and returns the
// time of the first match.
func (w *sampler) shows(since time.Time, want offers) time.Time {
	var at time.Time
	await(w.s, "offers", func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.s.check(w.problem())
		for _, state := range append(slices.Clone(w.states), w.last) {
			if state.offers.equal(want) && !state.at.Before(since) {
				at = state.at
				return want.String(), nil
			}
		}
		if w.last.offers.equal(want) {
			return "", errors.New("no new sample")
		}
		return w.last.offers.String(), nil
	}, want.String())
	return at
}

// since returns the state at time t and all later states.
func (w *sampler) since(t time.Time) []glimpse {
	w.mu.Lock()
	defer w.mu.Unlock()
	var chosen []glimpse
	for _, state := range append(slices.Clone(w.states), w.last) {
		if state.at.Before(t) {
			chosen = nil
		}
		chosen = append(chosen, state)
	}
	return chosen
}

func (o offers) equal(other offers) bool { return maps.EqualFunc(o, other, slices.Equal) }

// String lists the devices under each name, with the names abbreviated.
func (o offers) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		all = append(all, fmt.Sprintf("%.16s: %s", path.Base(name), strings.Join(o[name], " ")))
	}
	return strings.Join(all, " | ")
}

// problem returns an error if a sample was wrong, or if too many samples couldn't be read.
func (w *sampler) problem() error {
	switch {
	case len(w.wrong) > 0:
		return fmt.Errorf("%d samples are wrong, first: %s", len(w.wrong), strings.Join(w.wrong[:min(len(w.wrong), 5)], "; "))
	case w.failed > w.count/100+1 && !w.outage:
		return fmt.Errorf("%d of %d samples could not be read, first: %w", w.failed, w.count, w.err)
	}
	return nil
}

// end stops the sampler and prints its figures. The story fails if a sample was wrong, if the time between two samples
// was too long, or if there were too few samples. During an outage, samples may be missing.
func (w *sampler) end() {
	w.stop()
	took := time.Since(w.began)
	w.s.step("  %d samples in %.1f s, the largest gap between two %d ms, %d not read: no port under two names, none that a pod holds under another name",
		w.count, took.Seconds(), w.gap.Milliseconds(), w.failed)
	w.s.step("  no device node in two pods; nodes in at most %d pods at once", w.most)
	if w.awayLimit > 0 {
		w.s.step("  free ports without a name: %v; ports without a name after their pod had ended: %v", w.absences.free, w.absences.after)
	}
	w.s.check(w.problem())
	if w.outage {
		return
	}
	if w.gap > longestGap {
		w.s.failf("largest gap between two samples: found %v, want at most %v", w.gap, longestGap)
	}
	if least := int(took / sampleInterval / 3); w.count < least {
		w.s.failf("samples: found %d in %v, want at least %d", w.count, took, least)
	}
}

// changes prints the state at the given time and all later states.
func (w *sampler) changes(since time.Time) {
	for _, state := range w.since(since) {
		fmt.Printf("             %6.2f s  %s\n", state.at.Sub(since).Seconds(), state.offers)
	}
}
