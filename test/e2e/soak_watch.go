package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

const (
	containersEvery = 50 * time.Millisecond
	offersEvery     = 200 * time.Millisecond
)

// watching holds what the observers last saw.
type watching struct {
	mu         sync.Mutex
	containers map[string]soak.Container // by PID and start time
	looked     time.Time                 // when the last sample of containers began

	// Used only by the task that reads offers.
	offers   map[string][]string
	recorded []string
}

// containersOf returns a pod's running containers.
func (w *watching) containersOf(pod string) []soak.Container {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []soak.Container
	for _, c := range w.containers {
		if c.Pod == pod {
			found = append(found, c)
		}
	}
	return found
}

// all returns all running containers.
func (w *watching) all() []soak.Container {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.containers))
}

// observe starts the observers, and returns a function that stops them.
func (s *soaking) observe() (end func()) {
	ctx, cancel := context.WithCancel(s.base.ctx)
	var tasks sync.WaitGroup
	every := func(interval time.Duration, do func()) {
		tasks.Go(func() {
			tick := time.NewTicker(interval)
			defer tick.Stop()
			for ctx.Err() == nil {
				do()
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	s.watch.containers = map[string]soak.Container{}
	kubelet := s.base.kubelet()
	every(containersEvery, s.lookAtContainers)
	seen, complete, unread := time.Now(), time.Now(), false
	every(offersEvery, func() {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		began := time.Now()
		offers, err := s.readOffers(limited, kubelet)
		recorded := s.recorded()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && (!unread || offers != nil) && time.Since(complete) > time.Second:
			unread = true
			s.write(soak.Line{Offers: &soak.Offers{Unread: err.Error(), Ports: offers, Seen: s.at(seen), Recorded: recorded}})
		case err == nil && (unread || s.watch.offers == nil || !maps.EqualFunc(offers, s.watch.offers, slices.Equal) || !slices.Equal(recorded, s.watch.recorded)):
			unread, s.watch.offers, s.watch.recorded = false, offers, recorded
			s.write(soak.Line{Offers: &soak.Offers{Ports: offers, Seen: s.at(seen), Recorded: recorded}})
		}
		if offers != nil {
			seen = began
		}
		if err == nil {
			complete = began
		}
	})

	factory := informers.NewSharedInformerFactoryWithOptions(s.base.Client, 0, informers.WithNamespace(s.base.users))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.writePod(object.(*corev1.Pod), "") },
		UpdateFunc: func(_, object any) { s.writePod(object.(*corev1.Pod), "") },
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			s.writePod(object.(*corev1.Pod), "Gone")
		},
	})
	s.base.check(err)
	factory.Start(ctx.Done())
	return func() {
		cancel()
		tasks.Wait()
		factory.Shutdown()
	}
}

// writePod writes a line with a pod's new state.
func (s *soaking) writePod(pod *corev1.Pod, phase string) {
	p := soak.Pod{
		Name: pod.Name, UID: string(pod.UID), Wants: map[string]int{}, Phase: phase,
		Scheduled: pod.Spec.NodeName != "", Deleting: pod.DeletionTimestamp != nil, MayFail: pod.Labels[mayFailLabel] != "", Why: strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message),
	}
	if phase == "" {
		p.Phase = string(pod.Status.Phase)
	}
	for _, c := range pod.Spec.Containers {
		for name, quantity := range c.Resources.Limits {
			p.Wants[string(name)] += int(quantity.Value())
		}
		if len(c.Resources.Claims) > 0 {
			n, _ := strconv.Atoi(pod.Labels[wantsLabel])
			p.Wants[soak.Claims] += n
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			p.Why = condition.Message
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil && c.State.Waiting.Message != "" {
			p.Why = c.State.Waiting.Message
		}
	}
	s.write(soak.Line{Pod: &p})
}

// lookAtContainers writes a line for each container that has started or ended.
func (s *soaking) lookAtContainers() {
	now := time.Now()
	pids := cluster.PodProcesses()
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	seen := s.watch.looked
	s.watch.looked = now
	for key, c := range s.watch.containers {
		if _, still := startOf(c.PID); !slices.Contains(pids, c.PID) || still != key {
			delete(s.watch.containers, key)
			c.Ended, c.Seen = true, s.at(seen)
			s.write(soak.Line{Container: &c})
		}
	}
	for _, pid := range pids {
		started, key := startOf(pid)
		if _, known := s.watch.containers[key]; known || key == "" {
			continue
		}
		if c, ok := containerOf(pid); ok {
			c.Started = s.at(started)
			s.watch.containers[key] = c
			s.write(soak.Line{Container: &c})
		}
	}
}

// startOf returns a process's start time, with the kernel's resolution of 10 ms, and a key that identifies the process.
func startOf(pid int) (started time.Time, key string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, ""
	}
	_, after, _ := strings.Cut(string(text), ") ") // the fields after the name, starting with the third
	fields := strings.Fields(after)
	ticks, err := strconv.ParseInt(fields[22-3], 10, 64)
	if err != nil || fields[0] == "Z" {
		return time.Time{}, ""
	}
	var now syscall.Sysinfo_t
	if syscall.Sysinfo(&now) != nil {
		return time.Time{}, ""
	}
	return time.Now().Add(time.Duration(ticks)*time.Second/100 - uptime()), fmt.Sprintf("%d of %d", pid, ticks)
}

// uptime returns how long ago the machine booted.
func uptime() time.Duration {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	seconds, _ := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	return time.Duration(seconds * float64(time.Second))
}

var podOfCgroup = regexp.MustCompile(`/pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})/`)

// containerOf returns the container of a process. It returns false if the process isn't the container's first or
// doesn't run the workload.
func containerOf(pid int) (soak.Container, bool) {
	in, ok := look(strconv.Itoa(pid))
	if !ok {
		return soak.Container{}, false
	}
	c := soak.Container{PID: pid, Pod: in.pod, Nodes: in.nodes, Rules: []string{}}
	if c.Nodes == nil {
		c.Nodes = []string{}
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return c, false
	}
	if match := podOfCgroup.FindSubmatch(groups); match != nil {
		c.UID = strings.ReplaceAll(string(match[1]), "_", "-")
	}
	for line := range strings.Lines(string(groups)) { // such as 5:devices:/kubepods/…
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 && fields[1] == "devices" {
			c.Rules = allowed(filepath.Join("/sys/fs/cgroup/devices", fields[2], "devices.list"))
		}
	}
	return c, true
}

// allowed returns the numbers of the ports that a v1 cgroup allows, from lines such as "c 120:0 rw".
func allowed(path string) []string {
	text, _ := os.ReadFile(path)
	found := []string{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && strings.HasPrefix(fields[1], "120:") {
			found = append(found, fields[1])
		}
	}
	return found
}

// opens reports whether a container has a device node with this number, or is allowed to open it.
func opens(c soak.Container, number string) bool {
	return slices.Contains(c.Nodes, number) || slices.Contains(c.Rules, number)
}

// entry is an entry in the kubelet's checkpoint: the devices that a container has from one resource.
type entry struct {
	PodUID, ResourceName string
	DeviceIDs            map[string][]string // by NUMA node
}

func (e entry) ports() (ports []string) {
	for _, ids := range e.DeviceIDs {
		for _, id := range ids {
			ports = append(ports, portsOf(e.ResourceName, deviceName(id))...)
		}
	}
	return ports
}

// checkpointed is the part of the kubelet's checkpoint that the soak reads.
type checkpointed struct {
	PodDeviceEntries  []entry
	RegisteredDevices map[string][]string // healthy devices, by resource
}

// readCheckpoint reads the kubelet's checkpoint. It fails if the kubelet is writing the file.
func readCheckpoint() (checkpointed, error) {
	var file struct{ Data checkpointed }
	text, err := os.ReadFile(checkpointFile)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	return file.Data, err
}

// recorded returns the ports that are recorded for the API that the node isn't using. If the node uses DRA, these ports
// are in the kubelet's checkpoint, because the kubelet doesn't remove the entries of a container that has ended until
// it next allocates a device plugin's device. Otherwise, they are in the driver's records about its claims, because a
// driver that only finishes claims doesn't remove its predecessor's records.
func (s *soaking) recorded() (ports []string) {
	if s.present().API == "dra" {
		file, _ := readCheckpoint()
		for _, e := range file.PodDeviceEntries {
			ports = append(ports, e.ports()...)
		}
	} else {
		var file struct{ Nodes map[string][]string }
		text, _ := os.ReadFile(filepath.Join(state, "injected.json"))
		_ = json.Unmarshal(text, &file) // the file may be missing, or contain something else
		for key := range file.Nodes {
			if id, ok := strings.CutPrefix(key, draDriver+"/"); ok {
				ports = append(ports, portsOf(wholeCards, deviceName(id))...)
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// readOffers returns what the kubelet's device manager and the slices offer. If only the slices can't be read, it
// returns the kubelet's offers and an error.
func (s *soaking) readOffers(ctx context.Context, kubelet podresources.PodResourcesListerClient) (map[string][]string, error) {
	all, err := kubelet.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, err
	}
	plugged := map[string]bool{}
	for _, p := range s.bench.all() {
		plugged[p.ID] = true
	}
	offers := map[string][]string{}
	add := func(under, name, device string) {
		for _, port := range portsOf(name, device) {
			if port == device || plugged[port] {
				offers[under] = append(offers[under], port)
			}
		}
	}
	for _, devices := range all.Devices {
		if strings.HasPrefix(devices.ResourceName, "e2e.b-com.com/soak") || strings.HasPrefix(devices.ResourceName, domain) {
			for _, id := range devices.DeviceIds {
				add(devices.ResourceName, devices.ResourceName, deviceName(id))
			}
		}
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	inSlices, err := s.base.untainted(limited)
	for name, devices := range inSlices {
		for _, device := range devices {
			add(soak.Claims, name, device)
		}
	}
	for name, ports := range offers {
		slices.Sort(ports)
		// For a few seconds, two slices may contain the same devices: the slices of two drivers, or of one driver that
		// hasn't seen its own write yet. The scheduler doesn't allocate devices from such a pool.
		offers[name] = slices.Compact(ports)
	}
	return offers, err
}
