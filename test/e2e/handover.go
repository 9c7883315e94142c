package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// Both APIs are sampled every sampleInterval. The kubelet's pods are listed with each podsEvery-th sample,
// because the kubelet serves 100 calls a second to all clients of its pod-resources API, also to the daemon.
const (
	sampleInterval = 20 * time.Millisecond
	podsEvery      = 5
	longestGap     = time.Second // between two samples, on a machine that is shared
)

// deviceNames is a set of names of devices, sorted.
type deviceNames []string

// both is one sample: the devices that each API could give to a pod, if no pod had them. This is more than the free
// devices, because it includes those that a pod holds through the same API.
type both struct {
	at     time.Time
	list   deviceNames // healthy in the list of the kubelet's device manager: GetAllocatableResources of pod-resources
	slices deviceNames // in a ResourceSlice without a taint, read from the API server by a list without a resource version
}

// held has the pods that hold devices, as the kubelet lists them: device to pod.
type held struct{ byResource, byClaim map[string]string }

// noSlices waits until the kubelet has deleted the slices of an earlier story, whose release was uninstalled with the
// rights of its driver. A story begins without the state directory, so the daemons do not know of these slices.
func (s *scene) noSlices() {
	await(s, "slices of an earlier story", func() (int, error) {
		all, err := s.Client.ResourceV1().ResourceSlices().List(s.ctx, metav1.ListOptions{})
		return len(all.Items), err
	}, 0)
}

// judge returns what is wrong with a sample. A device must not be in both APIs at once, whether it is held or
// not. A device that is held through one API must not be in the other one. before and after are the newest lists of pods
// around the sample: a device counts as held if both have it.
func judge(sample both, before, after held) []string {
	var wrong []string
	for _, name := range sample.list {
		if slices.Contains(sample.slices, name) {
			wrong = append(wrong, fmt.Sprintf("%s is in the list and in a slice", name))
		}
	}
	for _, tt := range []struct {
		free          deviceNames
		where, how    string
		before, after map[string]string
	}{
		{sample.slices, "a slice without a taint", "resource", before.byResource, after.byResource},
		{sample.list, "the list, healthy", "claim", before.byClaim, after.byClaim},
	} {
		for _, name := range tt.free {
			if pod := tt.after[name]; pod != "" && pod == tt.before[name] {
				wrong = append(wrong, fmt.Sprintf("%s is in %s, and pod %s holds it through a %s", name, tt.where, pod, tt.how))
			}
		}
	}
	for name, pod := range after.byClaim {
		if other := after.byResource[name]; other != "" {
			wrong = append(wrong, fmt.Sprintf("%s is held by pod %s through a resource, and by pod %s through a claim", name, other, pod))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// sampler samples both APIs until the end of the story.
type sampler struct {
	s    *scene
	stop func()

	mu      sync.Mutex
	began   time.Time
	last    both
	held    held
	count   int
	gap     time.Duration
	failed  int   // samples that could not be read
	err     error // the first of them
	states  []both
	pending []both // since the last list of pods
	wrong   []string
}

// sampleBoth starts a sampler.
func (s *scene) sampleBoth() *sampler {
	ctx, cancel := context.WithCancel(s.ctx)
	w := &sampler{s: s, began: time.Now()}
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

// take takes one sample.
func (w *sampler) take(ctx context.Context, kubelet podresources.PodResourcesListerClient, pods bool) {
	sample := both{at: time.Now()}
	var now held
	var reads sync.WaitGroup
	var failed error
	reads.Go(func() { sample.slices, failed = w.s.untainted(ctx) })
	var err error
	sample.list, err = w.s.listed(ctx, kubelet)
	reads.Wait()
	err = errors.Join(err, failed)
	if pods && err == nil { // after the sample
		now, err = w.s.holders(ctx, kubelet)
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
	if w.count++; w.count > 1 {
		w.gap = max(w.gap, sample.at.Sub(w.last.at))
	}
	if !slices.Equal(sample.list, w.last.list) || !slices.Equal(sample.slices, w.last.slices) || w.count == 1 {
		w.states = append(w.states, sample)
	}
	w.last = sample
	w.pending = append(w.pending, sample)
	if !pods {
		return
	}
	for _, p := range w.pending {
		for _, text := range judge(p, w.held, now) {
			w.wrong = append(w.wrong, fmt.Sprintf("%.3f s: %s", p.at.Sub(w.began).Seconds(), text))
		}
	}
	w.pending, w.held = nil, now
}

// listed returns the devices of the story's resource that the kubelet's device manager has as healthy.
func (s *scene) listed(ctx context.Context, kubelet podresources.PodResourcesListerClient) (deviceNames, error) {
	all, err := kubelet.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, err
	}
	var found deviceNames
	for _, devices := range all.Devices {
		if devices.ResourceName == s.resource {
			for _, id := range devices.DeviceIds {
				found = append(found, deviceName(id))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// untainted returns the devices of the driver's slices that no taint keeps from new pods.
func (s *scene) untainted(ctx context.Context) (deviceNames, error) {
	all, err := s.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.driver=" + draDriver + ",spec.nodeName=" + cluster.NodeName,
	})
	if err != nil {
		return nil, err
	}
	var found deviceNames
	for _, slice := range all.Items {
		for _, device := range slice.Spec.Devices {
			if !slices.ContainsFunc(device.Taints, func(t resourceapi.DeviceTaint) bool { return t.Effect != resourceapi.DeviceTaintEffectNone }) {
				found = append(found, device.Name)
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// holders returns the pods that hold devices of the story's resource or of the driver.
func (s *scene) holders(ctx context.Context, kubelet podresources.PodResourcesListerClient) (held, error) {
	h := held{map[string]string{}, map[string]string{}}
	list, err := kubelet.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return h, err
	}
	for _, pod := range list.PodResources {
		for _, container := range pod.Containers {
			for _, devices := range container.Devices {
				for _, id := range devices.DeviceIds {
					if devices.ResourceName == s.resource {
						h.byResource[deviceName(id)] = pod.Name
					}
				}
			}
			for _, claim := range container.DynamicResources {
				for _, device := range claim.ClaimResources {
					if device.DriverName == draDriver {
						h.byClaim[device.DeviceName] = pod.Name
					}
				}
			}
		}
	}
	return h, nil
}

// reaches waits until the list and the slices have these devices, and returns the time of the first such sample
// at or after since.
func (w *sampler) reaches(since time.Time, list, inSlices deviceNames) time.Time {
	var at time.Time
	await(w.s, "devices in the list | in slices", func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.s.check(w.problem())
		for _, state := range append(slices.Clone(w.states), w.last) {
			if slices.Equal(state.list, list) && slices.Equal(state.slices, inSlices) && !state.at.Before(since) {
				at = state.at
				return state.String(), nil
			}
		}
		return w.last.String(), nil
	}, both{list: list, slices: inSlices}.String())
	return at
}

// String returns the devices in the list, and after "|" those in slices.
func (b both) String() string {
	return strings.Join(b.list, " ") + " | " + strings.Join(b.slices, " ")
}

// problem returns an error if a sample was wrong, or too many could not be read.
func (w *sampler) problem() error {
	switch {
	case len(w.wrong) > 0:
		return fmt.Errorf("%d samples are wrong, first: %s", len(w.wrong), strings.Join(w.wrong[:min(len(w.wrong), 5)], "; "))
	case w.failed > w.count/100+1:
		return fmt.Errorf("%d of %d samples could not be read, first: %w", w.failed, w.count, w.err)
	}
	return nil
}

// end ends the sampler, prints its numbers, and ends the story if a sample was wrong, or if it slept.
func (w *sampler) end() {
	w.stop()
	took := time.Since(w.began)
	w.s.step("  %d samples in %.1f s, the largest gap between two %d ms, %d not read: no device in both APIs, none that a pod holds through the other one",
		w.count, took.Seconds(), w.gap.Milliseconds(), w.failed)
	w.s.check(w.problem())
	if w.gap > longestGap {
		w.s.failf("largest gap between two samples: found %v, want at most %v", w.gap, longestGap)
	}
	if least := int(took / sampleInterval / 3); w.count < least {
		w.s.failf("samples: found %d in %v, want at least %d", w.count, took, least)
	}
}

// changes prints the states since a time.
func (w *sampler) changes(since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, state := range w.states {
		if !state.at.Before(since) {
			fmt.Printf("             %6.2f s  %s\n", state.at.Sub(since).Seconds(), state)
		}
	}
}
