package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// The fourth card has two ports and a different AFU.
const fourth, fourthID, fourthPort = "0000:04:00.0", "04:00.0", "04:00.0-p1"

// draClaim shows that pods get the devices that their claims select by attributes. Containers and pods can share a
// claim, and an invalid configuration is rejected.
func draClaim(s *scene) {
	s.plugCard(first, 1, 0, afuID)
	s.plugCard(second, 1, 1, afuID)
	s.plugCard(fourth, 2, -1, otherAFU)
	s.installDRA()
	all := offer(firstID, secondID, fourthID, fourthPort)
	s.followSlices().shows(time.Now(), all)
	s.step("a claim by AFU, and one by NUMA node")
	s.claimed("afu", selects(attribute("afuId")+` == "`+otherAFU+`"`))
	s.claimed("numa", selects(`device.attributes["resource.kubernetes.io"].?numaNode.orValue(-1) == 1`))
	s.hasReport("numa", draReport(secondID, "dfl-port.1"))
	s.reachesPhase("afu", corev1.PodRunning)
	got := must(s.allocated("afu"))
	s.hasReport("afu", map[string]report{
		deviceName(fourthID): draReport(fourthID, "dfl-port.2"), deviceName(fourthPort): draReport(fourthPort, "dfl-port.3"),
	}[strings.Join(got, ",")])
	s.claimHealth("numa", map[string]string{secondID: "Healthy"})
	s.deleteClaimed("afu", "numa")
	s.step("two ports of one card: by a constraint, not two cards")
	bus := resourceapi.FullyQualifiedName("resource.kubernetes.io/pciBusID")
	s.claimed("ports", resourceapi.DeviceClaim{
		Requests:    []resourceapi.DeviceRequest{request("port", 2, "")},
		Constraints: []resourceapi.DeviceConstraint{{MatchAttribute: &bus}},
	})
	s.hasReport("ports", draReport(fourthID+","+fourthPort, "dfl-port.2", "dfl-port.3"))
	s.step("two requests, two claims in one container: the variables of single devices have all")
	afu := attribute("afuId") + ` == "` + afuID + `"`
	s.deleteClaimed("ports")
	s.claim("pair", resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request("a", 1, afu), request("b", 1, afu)}})
	s.claim("more", selects(attribute("portId")+" == 1"))
	s.create(s.claimant("user", "pair", "more"))
	s.hasDevices("user", draReport(firstID+","+secondID+","+fourthPort, "dfl-port.0", "dfl-port.1", "dfl-port.3"))
	s.step("a claim that no free card satisfies: the pod is pending until the card is free")
	s.claimed("next", selects(afu))
	s.pending("next")
	s.deletePods("user")
	s.reachesPhase("next", corev1.PodRunning)
	s.deleteClaimed("next")
	s.step("two containers of a pod share a claim; two pods share one")
	s.claim("shared", selects(attribute("portId")+" == 1"))
	pod := s.claimant("both", "shared")
	pod.Spec.Containers = append(pod.Spec.Containers, *pod.Spec.Containers[0].DeepCopy())
	pod.Spec.Containers[1].Name = "beside"
	s.create(pod)
	s.create(s.claimant("third", "shared"))
	want := draReport(fourthPort, "dfl-port.3")
	s.hasReport("both", want)
	s.hasReport("third", want)
	await(s, "report of the other container", func() (report, error) { return s.lastReport("both", "beside") }, want)
	s.deletePods("both")
	s.reachesPhase("third", corev1.PodRunning)
	s.prepared(1)
	s.deletePods("third")
	s.prepared(0)
	s.step("a configuration with a field that is not known, or a bad id: the claim, the template and the class are refused")
	const head = `{"apiVersion": "` + draDriver + `/v1alpha1", "kind": "AcceleratorConfig", `
	s.refusesConfig(head+`"afu": "`+afuID+`"}`, `found unknown field "afu", want`)
	s.refusesConfig(head+`"afuId": "d8424dc4"}`, `afuId: found "d8424dc4", want 32 hexadecimal digits`)
	s.step("a claim with an AFU that the card has not: the pod's event has the reason")
	s.claimed("other-afu", withConfig(selects(afu), head+`"afuId": "`+otherAFU+`"}`))
	s.step("  %s", s.cannotPrepare("other-afu", s.users+"/other-afu", otherAFU))
	s.deleteClaimed("other-afu")
}

// refusesConfig checks that a claim, a claim template and a device class with this configuration for the driver are all
// rejected, and that each error contains the text.
func (s *scene) refusesConfig(parameters, text string) {
	devices := withConfig(one(), parameters)
	named := metav1.ObjectMeta{Name: "bad-config"}
	_, err := s.Client.ResourceV1().ResourceClaims(s.users).Create(s.ctx, &resourceapi.ResourceClaim{
		ObjectMeta: named, Spec: resourceapi.ResourceClaimSpec{Devices: devices},
	}, metav1.CreateOptions{})
	s.refused("claim", err, "ValidatingAdmissionPolicy", "spec.devices.config[0].opaque.parameters: ", text)
	s.step("  %v", err)
	_, err = s.Client.ResourceV1().ResourceClaimTemplates(s.users).Create(s.ctx, &resourceapi.ResourceClaimTemplate{
		ObjectMeta: named, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: devices}},
	}, metav1.CreateOptions{})
	s.refused("template", err, "ValidatingAdmissionPolicy", "spec.spec.devices.config[0].opaque.parameters: ", text)
	_, err = s.Client.ResourceV1().DeviceClasses().Create(s.ctx, &resourceapi.DeviceClass{
		ObjectMeta: named, Spec: resourceapi.DeviceClassSpec{Config: []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: devices.Config[0].DeviceConfiguration}}},
	}, metav1.CreateOptions{})
	s.refused("class", err, "ValidatingAdmissionPolicy", "spec.config[0].opaque.parameters: ", text)
}

// prepared waits until the CDI spec for claims contains this number of devices.
func (s *scene) prepared(want int) {
	await(s, "number of CDI devices", func() (int, error) {
		found, err := s.cdiDevices()
		return len(found), err
	}, want)
}

// draHotplug shows that a pod that is waiting for a card runs once the card has been plugged in.
func draHotplug(s *scene) {
	s.installDRA()
	slices, pods := s.followSlices(), s.followPods()
	slices.shows(time.Now(), offered{})
	s.template("card", one())
	s.step("a pod waits, a card is plugged, the pod runs; %d times", rounds)
	var shown, running, withdrawn times
	var names, ids []string
	for round := range rounds {
		name, id := fmt.Sprintf("pod-%d", round), fmt.Sprintf("%02x:00.0", round+1)
		names, ids = append(names, name), append(ids, id)
		s.create(s.templated(name, "card"))
		s.pending(name)
		plugged := s.plugCard("0000:"+id, 1, -1, afuID)
		shown = append(shown, slices.shows(plugged, offer(ids...)).Sub(plugged))
		running = append(running, pods.runs(plugged, name).Sub(plugged))
		s.hasReport(name, draReport(id, fmt.Sprintf("dfl-port.%d", round)))
	}
	s.measured("card plugged → in the slice", shown, 100*time.Millisecond)
	s.measured("card plugged → waiting pod runs", running, 0)
	s.step("the pods end, and the cards are pulled")
	s.deletePods(names...)
	s.prepared(0)
	for i, id := range ids {
		pulled := s.pullCard("0000:" + id)
		withdrawn = append(withdrawn, slices.shows(pulled, offer(ids[i+1:]...)).Sub(pulled))
	}
	s.measured("free card pulled → not in the slice", withdrawn, 100*time.Millisecond)
}

// draAdmin shows that a claim with admin access, in a namespace that allows it, shares a card with the pod that holds
// the card.
func draAdmin(s *scene) {
	s.plug(first)
	s.installDRA()
	s.claimed("holder", one())
	s.hasReport("holder", draReport(firstID, "dfl-port.0"))
	admin := one()
	yes := true
	admin.Requests[0].Exactly.AdminAccess = &yes
	s.step("refused in a namespace without the label")
	_, err := s.Client.ResourceV1().ResourceClaims(s.users).Create(s.ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "admin"}, Spec: resourceapi.ResourceClaimSpec{Devices: admin},
	}, metav1.CreateOptions{})
	s.refused("claim", err, "admin-access")
	s.step("a pod in a namespace with the label gets the card beside its holder")
	users := s.users
	const admins = "dra-admins"
	_, err = s.Client.CoreV1().Namespaces().Create(s.ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: admins, Labels: map[string]string{"resource.kubernetes.io/admin-access": "true"}},
	}, metav1.CreateOptions{})
	s.check(err)
	s.cleanups = append(s.cleanups, func() {
		s.users = users
		s.check(s.Client.CoreV1().Namespaces().Delete(s.ctx, admins, metav1.DeleteOptions{}))
	})
	s.users = admins
	s.awaitAccount()
	s.claimed("admin", admin)
	s.hasReport("admin", draReport(firstID, "dfl-port.0"))
	s.step("the holder ends and another pod gets the card, beside the administrator")
	s.users = users
	s.deleteClaimed("holder")
	s.claimed("next", one())
	s.hasReport("next", draReport(firstID, "dfl-port.0"))
	s.step("the administrator ends: the next pod keeps the card")
	s.users = admins
	s.deleteClaimed("admin")
	s.users = users
	s.prepared(1)
	s.pullCard(first)
	s.logged("device.tombstone", line{"device": firstID})
	if s.minor < taints {
		s.staysInPhase("next", corev1.PodRunning)
		return
	}
	s.step("the holder of the pulled card is evicted")
	s.podGone("next")
}

// awaitAccount waits until the namespace of the story's pods has its default service account. Without it, no pods can
// be created.
func (s *scene) awaitAccount() {
	await(s, "default service account", func() (string, error) {
		account, err := s.Client.CoreV1().ServiceAccounts(s.users).Get(s.ctx, "default", metav1.GetOptions{})
		return account.GetName(), err
	}, "default")
}

// podGone waits until there is no pod with this name.
func (s *scene) podGone(name string) {
	await(s, "pod "+name+" gone", func() (bool, error) {
		_, err := s.readPod(name)
		return err != nil, nil
	}, true)
}

// draPolicy shows that the driver's token allows the driver to write only its own node's slices.
func draPolicy(s *scene) {
	s.plug(first)
	s.installDRA()
	s.followSlices().shows(time.Now(), offer(firstID))
	pod := s.daemon()
	driver := s.clientOf(&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID})
	other := "other"
	foreign := s.slice("foreign", other)
	must(s.Client.ResourceV1().ResourceSlices().Create(s.ctx, foreign, metav1.CreateOptions{}))
	s.cleanups = append(s.cleanups, func() {
		s.check(s.Client.ResourceV1().ResourceSlices().Delete(s.ctx, foreign.Name, metav1.DeleteOptions{}))
	})
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	create := func(client kubernetes.Interface, slice *resourceapi.ResourceSlice) error {
		_, err := client.ResourceV1().ResourceSlices().Create(s.ctx, slice, dry)
		return err
	}
	s.step("with the driver's token: a slice of its node is accepted")
	s.check(create(driver, s.slice("own", cluster.NodeName)))
	s.step("refused: a slice of another node, of all nodes")
	var err error
	await(s, "slice of another node refused", func() (bool, error) { // policies don't take effect immediately
		err = create(driver, s.slice("other", other))
		return err != nil, nil
	}, true)
	s.refused("slice of another node", err, "ValidatingAdmissionPolicy", "node")
	s.step("  %v", err)
	everywhere, yes := s.slice("everywhere", cluster.NodeName), true
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, &yes
	s.refused("slice of all nodes", create(driver, everywhere), "ValidatingAdmissionPolicy")
	s.step("refused: a slice of the pool of another node, of another driver")
	posing := s.slice("pool", cluster.NodeName)
	posing.Spec.Pool.Name = other
	s.refused("slice of the pool of another node", create(driver, posing), "ValidatingAdmissionPolicy", "pool")
	another := s.slice("driver", cluster.NodeName)
	another.Spec.Driver = "e2e." + draDriver
	s.refused("slice of another driver", create(driver, another), "ValidatingAdmissionPolicy", "driver")
	s.step("refused: an update and the deletion of a slice of another node")
	written := must(s.Client.ResourceV1().ResourceSlices().Get(s.ctx, foreign.Name, metav1.GetOptions{}))
	written.Spec.Pool.Generation++
	_, err = driver.ResourceV1().ResourceSlices().Update(s.ctx, written, metav1.UpdateOptions{DryRun: dry.DryRun})
	s.refused("update", err, "ValidatingAdmissionPolicy")
	s.refused("deletion", driver.ResourceV1().ResourceSlices().Delete(s.ctx, foreign.Name, metav1.DeleteOptions{}), "ValidatingAdmissionPolicy")
	s.step("refused: a token of no node")
	s.refused("token without a node", create(s.clientOf(nil), s.slice("own", cluster.NodeName)), "ValidatingAdmissionPolicy")
	s.step("the account has no more rights than it needs")
	s.hasRights(daemonAccount, map[string]bool{
		"get resourceclaims": true, "list resourceclaims": false, "update resourceclaims": false,
		"get nodes": true, "list nodes": false, "patch nodes": false,
		"list resourceslices": true, "watch resourceslices": true, "create resourceslices": true, "update resourceslices": true,
		"delete resourceslices": true, "deletecollection resourceslices": false,
		"list pods": false, "get pods": false, "delete pods": false, "get secrets": false, "create events": false, "create deviceclasses": false,
	})
}

// slice returns an empty slice for a node.
func (s *scene) slice(name, node string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-" + name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: draDriver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
}

// clientOf returns a client with a token for the driver's service account. The token is bound to object unless object
// is nil.
func (s *scene) clientOf(object *authenticationv1.BoundObjectReference) kubernetes.Interface {
	_, account, _ := strings.Cut(daemonAccount, ":")
	token, err := s.Client.CoreV1().ServiceAccounts(namespace).CreateToken(s.ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: object}}, metav1.CreateOptions{})
	s.check(err)
	config := must(clientcmd.BuildConfigFromFlags("", s.Kubeconfig))
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token.Status.Token
	client := must(kubernetes.NewForConfig(config))
	return client
}

// draTest shows that helm test, which starts a pod with a claim, passes if a card is free and fails if none is.
func draTest(s *scene) {
	s.installDRA()
	slices := s.followSlices()
	s.testsRelease(func() { slices.shows(s.plugCard(first, 1, -1, afuID), offer(firstID)) }, func() {
		s.claimed("next", one())
		s.hasReport("next", draReport(firstID, "dfl-port.0"))
	})
}

// draEvents shows that the DRA driver writes Events about a device, both for the pod that holds the device and for the
// node.
func draEvents(s *scene) {
	s.plug(first)
	s.installDRA("events=true", "dra.taintEffect=NoSchedule")
	s.claimed("user", one())
	s.hasReport("user", draReport(firstID, "dfl-port.0"))
	s.logged("device.held", line{"device": firstID, "resource": draDriver, "holders": "[default/user/main]"})
	s.deviceEvents()
}

// draUninstall shows that helm uninstall removes everything that the chart and the driver have created. A pod that
// still holds a card keeps running, but until the chart is installed again, it can neither restart its container nor be
// deleted.
func draUninstall(s *scene) {
	s.plug(first)
	s.installDRA()
	slices := s.followSlices()
	slices.shows(time.Now(), offer(firstID))
	s.claimed("user", one())
	s.hasReport("user", draReport(firstID, "dfl-port.0"))
	s.deleteClaimed("user")
	s.step("helm uninstall without pods: no socket and no CDI device is left")
	ended := time.Now()
	s.uninstall()
	s.nothingLeft()
	gone := slices.shows(ended, offered{})
	s.step("  slices are gone after %.1f s", gone.Sub(ended).Seconds())
	s.step("helm uninstall beside a pod that holds a card: the pod keeps running")
	s.install(s.draValues()...)
	slices.shows(time.Now(), offer(firstID))
	s.claim("user", one())
	s.create(restarting(s.claimant("user", "user")))
	held := draReport(firstID, "dfl-port.0")
	s.hasReport("user", held)
	s.uninstall()
	s.nothingLeft()
	s.staysInPhase("user", corev1.PodRunning)
	s.step("its container ends: it cannot start without a driver")
	s.killContainer("user")
	message := ""
	await(s, "state of the container", func() (string, error) {
		pod, err := s.readPod("user")
		if err != nil || pod.Status.ContainerStatuses[0].State.Waiting == nil {
			return "", err
		}
		message = pod.Status.ContainerStatuses[0].State.Waiting.Message
		return pod.Status.ContainerStatuses[0].State.Waiting.Reason, nil
	}, "CreateContainerError")
	s.step("  %s", message)
	s.step("helm install: the container starts with its device")
	s.install(s.draValues()...)
	await(s, "report of the next container", func() (report, error) {
		pod, err := s.readPod("user")
		if err != nil || pod.Status.ContainerStatuses[0].State.Running == nil {
			return report{}, err
		}
		return s.lastReport("user", "main")
	}, held)
	s.uninstall()
	s.step("the pod is deleted: it stays until a driver is back, and the kubelet can unprepare its claim")
	began := time.Now()
	s.check(s.Client.CoreV1().Pods(s.users).Delete(s.ctx, "user", metav1.DeleteOptions{}))
	s.stays("user", 20*time.Second)
	s.step("helm install: the pod is gone, and its claim can be deleted")
	s.install(s.draValues()...)
	s.podGone("user")
	s.step("  %.1f s after its deletion", time.Since(began).Seconds())
	s.check(s.Client.ResourceV1().ResourceClaims(s.users).Delete(s.ctx, "user", metav1.DeleteOptions{}))
	s.prepared(0)
	s.uninstall()
	s.nothingLeft()
}

// nothingLeft checks that helm uninstall has left nothing behind except slices, which the kubelet deletes.
func (s *scene) nothingLeft() {
	same(s, "sockets", sockets(), nil)
	held := must(s.cdiDevices())
	same(s, "CDI devices", held, nil)
	for _, kind := range []string{
		"deviceclasses", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "clusterroles", "clusterrolebindings",
		"serviceaccounts", "configmaps", "daemonsets", "networkpolicies",
	} {
		out := s.must("kubectl", "get", kind, "--all-namespaces", "--output", "name", "--selector", "app.kubernetes.io/instance="+release)
		same(s, kind, strings.TrimSpace(out), "")
	}
	specs := must(os.ReadDir(specs))
	same(s, "CDI specs", len(specs), 0)
}

// stays checks for the given time that a deleted pod still exists.
func (s *scene) stays(name string, limit time.Duration) {
	s.throughout(limit, func() {
		if _, err := s.readPod(name); err != nil {
			s.failf("pod %s: %w, want it until a driver is back", name, err)
		}
	})
}
