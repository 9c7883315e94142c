package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// A quiet time lasts at least quietLeast, and everything must agree within quietLimit. This limit is generous because
// the kubelet may take a minute or two to retry a container or a claim.
const (
	quietLeast = 30 * time.Second
	quietLimit = 200 * time.Second
	// recordedLimit replaces quietLimit while ports are still recorded (see [soak.Limits.Recorded]). Once no ports are
	// recorded anymore, the daemon has quietLeast to notice.
	recordedLimit = 330 * time.Second
)

// setUp prepares a node with cards, and installs the chart.
func (a act) setUp() {
	a.emptyNode()
	for _, dir := range []string{state, specs} {
		a.check(mountSmall(dir))
	}
	a.check(a.Start(a.ctx, "containerd")) // it watches the specs directory, which has been replaced
	a.plugIn(first, 2, afuID)
	a.plugIn(second, 1, afuID)
	a.plugIn(third, 1, otherAFU)
	a.naming = naming{"devicePlugin", "single", soakResources[0]}
	a.former = a.naming
	a.check(errors.Join(os.RemoveAll(filepath.Dir(hostDir)), os.MkdirAll(store, 0o755)))
	a.installOperator()
	a.apply(mapping{"soak-loopback", "af", afuID, interfaceID}, mapping{"soak-region", "region", afuID, interfaceID})
	a.kubectlSystem("create", "configmap", overrides, "--from-literal=overrides.yaml=nodes: {}")
	a.mustHelm("install", a.settings(a.naming.values()...)...)
	a.rolledToNaming()
}

// tearDown removes everything.
func (a act) tearDown() {
	_ = a.try(func() { a.emptyOfPods() })
	_ = a.try(a.uninstall)
	_ = a.try(a.removeOperator)
	_, _ = a.Run(a.ctx, "kubectl", "--namespace", namespace, "delete", "configmap", "--ignore-not-found", overrides)
}

// restore starts the parts that have ended by themselves, and repairs the release if an upgrade failed halfway. It
// first reads the naming from the release, because the operation whose upgrade failed may not have been able to read
// it.
func (a act) restore() {
	for _, part := range clusterParts {
		if a.EndedPart(part) {
			fmt.Printf("  %s has ended by itself, and is started again\n", part)
			a.check(a.Start(a.ctx, part))
		}
	}
	for range 3 {
		if err := a.try(func() { a.readNaming(); a.rolledToNaming() }); err == nil {
			return
		}
		_, _ = a.helm("rollback")
		a.readNaming()
		_ = a.try(func() { a.upgradeNaming(a.naming, fmt.Sprintf("podAnnotations.soak=r%d", time.Now().UnixNano())) })
	}
	a.rolledToNaming()
}

// settleCards ends cordons and exclusions whose commands failed, because these may or may not be in effect.
func (a act) settleCards() {
	// First wait for the commands themselves to end: a command in a pod keeps running even after its kubectl has given
	// up.
	await(a.scene, "commands cordon and uncordon in pods", func() (n int, err error) {
		for _, pid := range cluster.Programs(programs["daemon"]) {
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.Contains(line, []byte("cordon\x00")) {
				n++
			}
		}
		return n, nil
	}, 0)
	for _, address := range slots {
		for _, p := range a.bench.ports(address) {
			if p.Unsure {
				// This may have to be retried, because for a while after an API server fault, Kubernetes considers
				// every pod not ready.
				await(a.scene, "end of the cordon and the exclusion of "+address, func() (bool, error) {
					return true, a.try(func() { a.cordon(address, false); a.exclude(address, false) })
				}, true)
			}
		}
	}
}

// quiet ends all faults, waits until everything agrees, and then deletes all pods and looks for anything that was left
// behind. It writes a line with its findings.
func (s *soaking) quiet() {
	a := act{s.base, s}
	a.restore()
	a.enoughRoom()
	a.settleCards()
	began := time.Now()
	q := soak.Quiet{Since: s.at(began), Memory: map[string]float64{}, Files: map[string]int{}}
	for limit := quietLimit; ; {
		q.Differ = a.compare()
		q.Agreed = len(q.Differ) == 0
		took := time.Since(began)
		if len(s.recorded()) > 0 {
			limit = min(recordedLimit, max(limit, took+quietLeast))
		}
		if q.Agreed && took > quietLeast || took > limit || len(s.found()) > 0 {
			break
		}
		a.wait(time.Second)
	}
	q.Waiting = a.waiting()
	if len(q.Differ) == 0 {
		a.emptyOfPods()
		end := time.Now().Add(time.Minute)
		if len(s.recorded()) > 0 {
			end = time.Now().Add(recordedLimit)
		}
		for q.Left = a.leftOver(); len(q.Left) > 0 && time.Now().Before(end); q.Left = a.leftOver() {
			a.wait(time.Second)
		}
	}
	for program, comm := range programs {
		for _, pid := range cluster.Programs(comm) {
			q.Memory[program] = math.Round(a.resident(pid)*10) / 10
			files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			q.Files[program] = len(files)
		}
	}
	s.write(soak.Line{Quiet: &q})
	fmt.Printf("  quiet: all agreed %v, waiting pods %d, left over %d, memory %v MiB, descriptors %v\n", q.Agreed, len(q.Waiting), len(q.Left), q.Memory, q.Files)
}

// enoughRoom ends the run if the machine is running out of memory, disk space or process IDs. In that case, pods have
// to wait, which says nothing about the plugin.
func (a act) enoughRoom() {
	for _, c := range must(a.Node(a.ctx)).Status.Conditions {
		if c.Status == corev1.ConditionTrue && strings.HasSuffix(string(c.Type), "Pressure") {
			a.check(fmt.Errorf("this machine is too full for the run: %s since %s", c.Message, c.LastTransitionTime.UTC().Format(time.TimeOnly)))
		}
	}
}

// compare returns the differences between the hardware's state, the daemon, the kubelet, the node's status and the
// slices.
func (a act) compare() (differ []string) {
	now := a.present()
	var want, offers map[string][]string
	var rows []shownDevice
	var node *corev1.Node
	if err := a.try(func() {
		offers = must(a.readOffers(a.ctx, a.kubelet()))
		want = a.expected(now, offers)
		rows = must(a.rows())
		node = must(a.Node(a.ctx))
	}); err != nil {
		return []string{err.Error()}
	}
	add := func(name string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			differ = append(differ, fmt.Sprintf("%s: found %v, want %v, as the hardware says", name, got, want))
		}
	}
	add("offers", offers, want)
	shown, bad := map[string][]string{}, []shownDevice{}
	for _, r := range rows {
		if r.Health == "unhealthy" {
			bad = append(bad, r)
		}
		if r.Health == "healthy" || r.Health == "degraded" {
			name, in := r.Resource, now.Resource
			if now.API == "dra" {
				name = soak.Claims
			}
			if now.Mode == "region" {
				in = region
			}
			for _, id := range portsOf(in, deviceName(r.ID)) {
				if slices.ContainsFunc(a.bench.all(), func(p port) bool { return p.ID == id }) {
					shown[name] = append(shown[name], id)
				}
			}
		}
	}
	for _, ports := range shown {
		slices.Sort(ports)
	}
	add("devices", shown, want)
	file, unread := readCheckpoint()
	for _, name := range allNames() {
		// Five minutes after a resource's plugin has exited, the kubelet forgets the resource and sets its capacity to
		// 0 in the node status. If the API server doesn't respond at that moment, the old numbers stay, because
		// GetCapacity returns a removed resource only once (kubelet 1.37).
		if _, known := file.RegisteredDevices[name]; !known && unread == nil && len(want[name]) == 0 {
			continue
		}
		quantity := node.Status.Allocatable[corev1.ResourceName(name)]
		devices := len(want[name])
		if name == region {
			devices = 0
			for _, port := range want[name] {
				if !strings.HasSuffix(port, "-p1") {
					devices++
				}
			}
		}
		add("node status, "+name, quantity.Value(), devices)
	}
	if len(differ) > 0 {
		differ = append(differ, fmt.Sprintf("unhealthy devices are %v", bad))
	}
	return differ
}

// allNames returns every name that the soak's resources can have.
func allNames() []string {
	return append(slices.Clone(soakResources), afNameOf(afuID), afNameOf(otherAFU), region)
}

// expected returns the ports that must be offered under each name. A port must not be offered if a pod has it under
// another name, or if a container that is older than the port has a device node with the port's number. The second rule
// has an exception. If the kubelet has allocated the port to that container's pod, the card was pulled and plugged back
// in while the pod was running, and the daemon may take it for the same card. The port may then be offered or not.
// Which pod has a port is read from the kubelet, because it also lists pods whose containers aren't running.
func (a act) expected(now naming, offers map[string][]string) map[string][]string {
	fit := map[string]bool{}
	ports := a.bench.all()
	wants, given := a.wants(), a.given()
	for _, p := range ports {
		as := now.of(p)
		has := given[p.ID]
		fit[p.ID] = p.fit() && (has.name == "" || has.name == as)
		for _, c := range a.watch.all() {
			if opens(c, p.Node) {
				same := has.pod == c.Pod && slices.Contains(offers[as], p.ID)
				fit[p.ID] = fit[p.ID] && wants[c.Pod] == as && (c.Started > p.plugged || same)
			}
		}
	}
	want := map[string][]string{}
	for _, p := range ports {
		ok := fit[p.ID]
		if now.Mode == "region" {
			for _, other := range ports {
				if strings.TrimSuffix(other.ID, "-p1") == strings.TrimSuffix(p.ID, "-p1") {
					ok = ok && fit[other.ID]
				}
			}
		}
		if ok {
			want[now.of(p)] = append(want[now.of(p)], p.ID)
		}
	}
	for _, ports := range want {
		slices.Sort(ports)
	}
	return want
}

type givenTo struct{ name, pod string }

// given returns which pod each allocated port belongs to, and under which name the kubelet allocated the port. Ports of
// pods that have ended aren't included.
func (a act) given() map[string]givenTo {
	given := map[string]givenTo{}
	for _, pod := range must(a.kubelet().List(a.ctx, &podresources.ListPodResourcesRequest{})).PodResources {
		for _, container := range pod.Containers {
			for _, devices := range container.Devices {
				for _, id := range devices.DeviceIds {
					for _, port := range portsOf(devices.ResourceName, deviceName(id)) {
						given[port] = givenTo{devices.ResourceName, pod.Name}
					}
				}
			}
			for _, claim := range container.DynamicResources {
				for _, device := range claim.ClaimResources {
					given[device.DeviceName] = givenTo{soak.Claims, pod.Name}
				}
			}
		}
	}
	return given
}

// wants returns the name under which each pod requests devices.
func (a act) wants() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	wants := map[string]string{}
	for _, line := range a.lines {
		if line.Pod != nil {
			for name := range line.Pod.Wants {
				wants[line.Pod.Name] = name
			}
		}
	}
	return wants
}

// waiting returns the names of the pending pods.
func (a act) waiting() (waiting []string) {
	list, err := a.Client.CoreV1().Pods(a.users).List(a.ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending"})
	if err != nil {
		return []string{err.Error()}
	}
	for _, pod := range list.Items {
		waiting = append(waiting, pod.Name)
	}
	return waiting
}

// emptyOfPods deletes all pods and claims. It also changes claims that are left when their pods are gone. If the
// controller manager wasn't connected to the API server during a pod's whole life, it never learns that the pod is gone,
// and doesn't release the pod's deleted claim until the claim changes.
func (a act) emptyOfPods() {
	a.check(a.Client.CoreV1().Pods(a.users).DeleteCollection(a.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	a.check(a.Client.ResourceV1().ResourceClaims(a.users).DeleteCollection(a.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	changed := time.Now() // when claims were last changed
	await(a.scene, "pods and claims left", func() (left []string, err error) {
		pods, err := a.Client.CoreV1().Pods(a.users).List(a.ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, pod := range pods.Items {
			left = append(left, "pod "+pod.Name)
		}
		claims, err := a.Client.ResourceV1().ResourceClaims(a.users).List(a.ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		change := len(left) == 0 && time.Since(changed) > 10*time.Second
		for _, claim := range claims.Items {
			text := fmt.Sprintf("claim %s, deleted at %v, finalizers %v, status %+v", claim.Name, claim.DeletionTimestamp, claim.Finalizers, claim.Status)
			left = append(left, text)
			if change {
				changed = time.Now()
				fmt.Printf("  left, now changed: %s\n", text)
				patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"soak": "%d"}}}`, changed.UnixNano())
				_, err := a.Client.ResourceV1().ResourceClaims(a.users).Patch(a.ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
				if err = ignoreMissing(err); err != nil {
					return left, err
				}
			}
		}
		return left, nil
	}, nil)
	a.crowd.mu.Lock()
	defer a.crowd.mu.Unlock()
	a.crowd.names = nil
}

// leftOver returns what must not exist when there are no pods: sockets that nobody listens on, CDI specs, and records
// about containers.
func (a act) leftOver() (left []string) {
	sockets, _ := filepath.Glob("/var/lib/kubelet/device-plugins/*.sock")
	for _, dir := range []string{draRegistry, draPlugin} {
		more, _ := filepath.Glob(dir + "/*.sock")
		sockets = append(sockets, more...)
	}
	for _, socket := range sockets {
		connection, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			left = append(left, "socket without a listener: "+socket)
			continue
		}
		connection.Close()
	}
	for _, file := range filesIn(state, specs, draPlugin) {
		if name := filepath.Base(file); !strings.HasSuffix(name, ".lock") && !slices.Contains(lasting, name) {
			left = append(left, file)
		}
	}
	return left
}

// lasting lists the files that stay when there are no pods: the specs for the device plugins' devices, the cordons, the
// ledger, the boot in which a driver last ran, and stale entries from the kubelet's checkpoint, which stay until the
// kubelet rewrites it.
var lasting = []string{otherSpec, "fpga.intel.com-fpga.json", "cordons.json", "cards.json", "owner-dra.boot", "entries.json"}

// filesIn returns the files below these directories, except for sockets.
func filesIn(dirs ...string) (found []string) {
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type()&os.ModeSocket == 0 && !d.IsDir() {
				found = append(found, path)
			}
			return nil
		})
	}
	return found
}
