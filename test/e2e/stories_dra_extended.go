package main

import (
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// draExtended shows that pods written for the device plugin, which request a resource, get devices from the DRA driver
// without any changes. On this node, no device plugin has advertised the resource before.
func draExtended(s *scene) {
	s.plug(first, second)
	s.step("helm install")
	s.installDRA("events=true", "dra.extendedResourceName="+s.resource)
	slices, pods := s.followSlices(), s.followPods()
	slices.awaitUntainted(time.Now(), firstID, secondID)

	s.step("an unchanged pod gets a card; devices, can-pull and the log show it as the holder")
	s.create(s.pod("user", s.resource, 1))
	s.hasReport("user", draReport(firstID, "dfl-port.0"))
	s.logged("device.held", line{"device": firstID, "resource": draDriver, "holders": "[default/user/main]"})
	same(s, "holder in the output of devices", strings.Contains(s.exec("devices", "-o", "wide"), " default/user/main "), true)
	answer, err := s.Run(s.ctx, "kubectl", "--namespace", namespace, "exec", s.daemon().Name, "--", "accelerator-device-plugin", "can-pull", firstID)
	s.refused("can-pull", err, "exit code 1")
	same(s, "holder in the output of can-pull", strings.Contains(answer+err.Error(), "in use by default/user/main"), true)
	s.step("a pod with two containers waits for two cards; the first pod ends: each container gets a card of its own")
	pair := s.pod("pair", s.resource, 1)
	pair.Spec.Containers = append(pair.Spec.Containers, *pair.Spec.Containers[0].DeepCopy())
	pair.Spec.Containers[1].Name = "beside"
	s.create(pair)
	s.pending("pair")
	s.deletePods("user")
	s.hasReport("pair", draReport(firstID, "dfl-port.0"))
	await(s, "report of the other container", func() (report, error) { return s.lastReport("pair", "beside") }, draReport(secondID, "dfl-port.1"))
	s.deletePods("pair")
	s.prepared(0)
	await(s, "claims left", func() (int, error) {
		claims, err := s.Client.ResourceV1().ResourceClaims(s.users).List(s.ctx, metav1.ListOptions{})
		return len(claims.Items), err
	}, 0)
	s.step("a pod gets two cards for the number 2")
	s.create(s.pod("two", s.resource, 2))
	s.hasReport("two", draReport(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	s.deletePods("two")

	s.unchangedPodKeepsBrokenCard(slices, pods)
	s.classProgramsUnchangedPod()
}

// awaitUntainted waits until the slices contain these devices without taints. They may also contain others.
func (p published) awaitUntainted(since time.Time, ids ...string) {
	p.until(p.s, "devices without a taint", since, func(slices map[string]*resourceapi.ResourceSlice) bool {
		found := devices(slices)
		for _, id := range ids {
			if taint, ok := found[deviceName(id)]; !ok || taint != "" {
				return false
			}
		}
		return true
	})
}

// unchangedPodKeepsBrokenCard breaks two cards: one that an unchanged pod holds, and one that a pod with a claim holds.
// In Kubernetes 1.37.1, only the pod with the claim is deleted, and only its status shows the card's health.
func (s *scene) unchangedPodKeepsBrokenCard(slices published, pods podRecord) {
	s.step("the cards of an unchanged pod and of a pod with a claim break: only the second pod is deleted")
	s.create(s.pod("unchanged", s.resource, 1))
	s.hasReport("unchanged", draReport(firstID, "dfl-port.0"))
	s.claimed("claiming", one())
	s.hasReport("claiming", draReport(secondID, "dfl-port.1"))
	s.claimHealth("claiming", map[string]string{secondID: "Healthy"})
	began := s.breakCard(first)
	slices.taints(began, firstID)
	s.breakCard(second)
	pods.gone(began, "claiming")
	pod := must(s.readPod("unchanged"))
	if pod.DeletionTimestamp != nil {
		s.failf("pod unchanged: found it marked for deletion: this version of Kubernetes has the fix of kubernetes#141290: change docs/dra.md, docs/dra-reference.md, NOTES.txt and this story")
	}
	same(s, "phase of pod unchanged", pod.Status.Phase, corev1.PodRunning)
	for _, container := range pod.Status.ContainerStatuses {
		if len(container.AllocatedResourcesStatus) > 0 {
			s.failf("pod unchanged: found %v in allocatedResourcesStatus: this version of Kubernetes has the fix of kubernetes#139939: change docs/dra-reference.md, NOTES.txt and this story", container.AllocatedResourcesStatus)
		}
	}
	s.hasEvent(corev1.ObjectReference{Kind: "Pod", Namespace: s.users, Name: "unchanged", UID: pod.UID}, "DeviceUnhealthy", corev1.EventTypeWarning)
	s.step("no new pod gets a broken card; a card heals: the waiting pod gets it")
	s.create(s.pod("next", s.resource, 1))
	s.pending("next")
	s.healCard(second)
	s.hasReport("next", draReport(secondID, "dfl-port.1"))
	s.step("the card is pulled under the unchanged pod: it leaves the slice when the pod ends")
	slices.taints(s.pullCard(first), firstID)
	pod = must(s.readPod("unchanged"))
	same(s, "deletion of pod unchanged", pod.DeletionTimestamp, nil)
	s.deletePods("unchanged", "next")
	s.check(s.Client.ResourceV1().ResourceClaims(s.users).Delete(s.ctx, "claiming", metav1.DeleteOptions{}))
	slices.until(s, "slice without the card", time.Now(), func(found map[string]*resourceapi.ResourceSlice) bool {
		_, listed := devices(found)[deviceName(firstID)]
		return !listed
	})
	s.plug(first)
	slices.awaitUntainted(time.Now(), firstID, secondID)
}

// classProgramsUnchangedPod creates a class with a resource name and an AFU. The claim that Kubernetes creates for the
// pod inherits the AFU from the class. The claim is rejected, because programming is off.
func (s *scene) classProgramsUnchangedPod() {
	s.step("a class has an AcceleratorConfig: it applies to an unchanged pod")
	const class, resource = "programmed.b-com.com", "e2e.b-com.com/programmed"
	extended := resource
	config := programmed(first, otherAFU).Config[0].DeviceConfiguration
	_, err := s.Client.ResourceV1().DeviceClasses().Create(s.ctx, &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: resourceapi.DeviceClassSpec{
			Selectors:            []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: attribute("afuId") + ` == "` + afuID + `"`}}},
			Config:               []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: config}},
			ExtendedResourceName: &extended,
		},
	}, metav1.CreateOptions{})
	s.check(err)
	s.cleanups = append(s.cleanups, func() {
		s.check(s.Client.ResourceV1().DeviceClasses().Delete(s.ctx, class, metav1.DeleteOptions{}))
	})
	s.create(s.pod("programmed", resource, 1))
	s.step("  %s", s.cannotPrepare("programmed", "has AFU "+afuID+", but the claim requests "+otherAFU+": programming is off on this node"))
	s.deletePods("programmed")
}

// draExtendedStale is like [draExtended], but here the device plugin has advertised the resource before, and a pod
// still holds a card through it. Starting five minutes after the plugin has ended, pods that request the resource fail
// to start (kubernetes#141426, which isn't fixed in 1.37.1).
func draExtendedStale(s *scene) {
	s.plug(first)
	s.step("helm install with the device plugin; a pod gets the card")
	s.install()
	s.awaitAdvertised(s.resource, 1, 1)
	s.userGets("old", firstID, "dfl-port.0")
	s.exec("cordon", firstID, "--why", "a pod of the device plugin holds it")
	s.uninstall()
	ended := time.Now()
	s.plug(second, third)
	s.step("helm install with DRA: in the first five minutes, a pod that requests the resource gets a card")
	const class, resource = "other.b-com.com", "e2e.b-com.com/other"
	s.installDRA("dra.extendedResourceName="+s.resource, "dra.deviceClasses[0].name="+class,
		"dra.deviceClasses[0].extendedResourceName="+resource, "dra.deviceClasses[0].match.afuId="+afuID)
	slices, pods := s.followSlices(), s.followPods()
	slices.awaitUntainted(time.Now(), secondID, thirdID)
	s.create(s.pod("soon", s.resource, 1))
	s.hasReport("soon", draReport(secondID, "dfl-port.1"))
	s.deletePods("soon")
	s.prepared(0)

	s.step("the kubelet forgets the plugin after five minutes, but not the device of the pod: the next pod does not start")
	s.waitBeside(time.Until(ended.Add(4*time.Minute + 30*time.Second)))
	s.awaitAdvertised(s.resource, 0, 0)
	created := time.Now()
	s.create(s.pod("waits", s.resource, 1))
	s.notStarted("waits", created)
	s.step("kubectl shows which pod has its device from the device plugin, as in docs/dra.md")
	table, err := s.Run(s.ctx, "kubectl", "get", "pods", "--all-namespaces", "--field-selector", "spec.nodeName="+cluster.NodeName,
		"-o", "custom-columns=NAMESPACE:.metadata.namespace,POD:.metadata.name,LIMITS:.spec.containers[*].resources.limits,CLAIM:.status.extendedResourceClaimStatus.resourceClaimName")
	s.check(err)
	shown := map[string]string{} // pod to claim
	for l := range strings.Lines(table) {
		if fields := strings.Fields(l); strings.Contains(l, s.resource) {
			shown[fields[1]] = strings.TrimRight(fields[len(fields)-1], "bcdfghjklmnpqrstvwxz0123456789") // without the random suffix
		}
	}
	same(s, "claims of pods", shown, map[string]string{"old": "<none>", "waits": "waits-extended-resources-"})
	s.step("the kubelet restarts: no remedy")
	file := checkpointFile
	stale := must(os.ReadFile(file))
	began := time.Now()
	s.restartKubelet()
	s.notStarted("waits", began)
	s.step("another resource, and the one that Kubernetes derives from the name of a class: pods get cards")
	for _, other := range []string{resource, "deviceclass.resource.kubernetes.io/" + draDriver} {
		s.create(s.pod("other", other, 1))
		s.hasReport("other", draReport(thirdID, "dfl-port.2"))
		s.deletePods("other")
	}
	s.step("the pod of the device plugin ends: the waiting pod starts")
	s.reachesPhase("old", corev1.PodRunning)
	deleted := time.Now()
	s.deletePods("old")
	s.step("  it runs %.1f s after the deletion", pods.runs(deleted, "waits").Sub(deleted).Seconds())
	s.hasReport("waits", draReport(secondID, "dfl-port.1"))
	s.deletePods("waits")

	// The driver asks the kubelet who holds its devices, which makes the kubelet forget the devices of pods that have
	// ended.
	s.step("the kubelet starts with a checkpoint that still has the ended pod: a new pod starts")
	s.check(s.StopKubelet())
	s.check(os.WriteFile(file, stale, 0o600))
	began = time.Now()
	s.check(s.StartKubelet())
	slices.awaitUntainted(began, secondID, thirdID)
	created = time.Now()
	s.create(s.pod("last", s.resource, 1))
	runs := pods.runs(created, "last")
	s.step("  it runs %.1f s after its creation, after %d failures", runs.Sub(created).Seconds(), len(s.startFailures("last", created)))
	s.hasReport("last", draReport(secondID, "dfl-port.1"))
}

// notStarted waits for an event that says that the kubelet couldn't start a pod's container because a device plugin has
// ended. It ignores events before the given time.
func (s *scene) notStarted(name string, since time.Time) {
	await(s, "failed start of pod "+name, func() (bool, error) {
		pod, err := s.readPod(name)
		if err == nil && pod.Status.Phase == corev1.PodRunning {
			s.failf("pod %s: found it running: this version of Kubernetes has the fix of kubernetes#141426: change docs/dra.md, NOTES.txt and this story", name)
		}
		for _, message := range s.startFailures(name, since) {
			if strings.Contains(message, "endpoint not found in cache for a registered resource: "+s.resource) {
				return true, nil
			}
		}
		return false, err
	}, true)
}

// startFailures returns the messages of a pod's events about containers that failed to start. It leaves out events
// before the given time.
func (s *scene) startFailures(name string, since time.Time) []string {
	events := must(s.Client.CoreV1().Events(s.users).List(s.ctx, metav1.ListOptions{FieldSelector: "reason=Failed,involvedObject.name=" + name}))
	var messages []string
	for _, event := range events.Items {
		// Event times have a resolution of one second, so truncate since accordingly.
		if !event.LastTimestamp.Time.Before(since.Truncate(time.Second)) {
			messages = append(messages, event.Message)
		}
	}
	return messages
}
