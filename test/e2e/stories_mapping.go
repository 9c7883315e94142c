package main

import (
	"fmt"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/offer/names"
	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// The names, IDs and modes of the objects that Intel published for its FPGA plugin
// (intel-device-plugins-for-kubernetes, deployments/fpga_admissionwebhook/mappings-collection.yaml), in the order in
// which kubectl lists them.
const (
	nlb0, nlb3 = afuID, otherAFU
	dcp10      = interfaceID
	dcp11      = "9926ab6d6c925a68aabca7d84c545738"
	dcp12      = otherInterface
	d5005      = "bfac4d851ee856fe8c95865ce1bbaa2d"
)

var (
	publishedFunctions = []mapping{
		{"arria10.dcp1.0-nlb0-orchestrated", "region", nlb0, dcp10},
		{"arria10.dcp1.0-nlb3-orchestrated", "region", nlb3, dcp10},
		{"arria10.dcp1.1-nlb0-orchestrated", "region", nlb0, dcp11},
		{"arria10.dcp1.1-nlb3-orchestrated", "region", nlb3, dcp11},
		{"arria10.dcp1.2-nlb0-orchestrated", "region", nlb0, dcp12},
		{"arria10.dcp1.2-nlb0-preprogrammed", "af", nlb0, dcp12},
		{"arria10.dcp1.2-nlb3-orchestrated", "region", nlb3, dcp12},
		{"arria10.dcp1.2-nlb3-preprogrammed", "af", nlb3, dcp12},
		{"d5005-matrix-mult-orchestrated", "region", "40007c0623210742000ebc58df6f5343e668b03a", d5005},
		{"d5005-nlb0-orchestrated", "region", nlb0, d5005},
		{"d5005-nlb3-orchestrated", "region", nlb3, d5005},
		{"d5005-nlb3-preprogrammed", "af", nlb3, d5005},
	}
	publishedRegions = []mapping{
		{"arria10.dcp1.0", "", "", dcp10}, {"arria10.dcp1.1", "", "", dcp11}, {"arria10.dcp1.2", "", "", dcp12}, {"d5005", "", "", d5005},
	}
)

// resource returns the resource that the mapping's name stands for.
func (m mapping) resource() string {
	name, _ := names.Region(m.iface)
	if m.mode == "af" {
		name, _ = names.AF(m.iface, m.afu)
	}
	return domain + name
}

// usable is the message in the status of a mapping that is Ready.
const usable = "pods of this namespace can request the name"

// applyPublished applies Intel's objects, and checks what kubectl get prints for them.
func (s *scene) applyPublished() {
	var objects []any
	functions := []string{"NAME MODE AFU INTERFACE READY AGE RESOURCE MESSAGE"}
	for _, m := range publishedFunctions {
		objects = append(objects, m)
		functions = append(functions, fmt.Sprintf("%s %s %s %s True AGE %s %s", m.name, m.mode, m.afu, m.iface, m.resource(), usable))
	}
	regions := []string{"NAME INTERFACE READY AGE RESOURCE MESSAGE"}
	for _, m := range publishedRegions {
		objects = append(objects, m)
		regions = append(regions, fmt.Sprintf("%s %s True AGE %s %s", m.name, m.iface, m.resource(), usable))
	}
	s.apply(objects...)
	await(s, "kubectl get af", func() ([]string, error) { return s.table("af", "--output", "wide") }, functions)
	await(s, "kubectl get fpga", func() ([]string, error) { return s.table("fpga", "--output", "wide") }, regions)
}

// plugBoth plugs in two cards, one with each of the two AFUs.
func (s *scene) plugBoth() {
	s.plug(first)
	s.plugCard(second, 1, -1, otherAFU)
}

// mappings shows that pods can request functions by the names that the mappings in their namespace define, and that
// they get cards with these functions.
func mappings(s *scene) {
	s.plugBoth()
	s.step("helm install of both charts")
	s.install("config.mode=af")
	s.installOperator()
	one, other := mapping{"loopback", "af", afuID, interfaceID}, mapping{"loopback", "af", otherAFU, interfaceID}
	s.awaitAdvertised(one.resource(), 1, 1)
	s.awaitAdvertised(other.resource(), 1, 1)
	s.step("helm test; the rights of the account in all namespaces")
	s.must("helm", "test", operator, "--namespace", operatorNamespace, "--timeout", "1m")
	s.hasRights(operatorNamespace+":"+operator, map[string]bool{
		"list " + functionsCRD: true, "patch " + functionsCRD: false, "create " + regionsCRD: false,
		"get secrets": false, "create secrets": false, "list pods": false, "create pods": false, "list mutatingwebhookconfigurations": false,
	})
	s.step("Intel's published objects, unchanged: output of kubectl get")
	s.applyPublished()
	s.step("... and of an id that no card can have: not Ready")
	s.apply(mapping{"short", "af", "d8424dc4", interfaceID})
	await(s, "kubectl get af short", func() (string, error) {
		lines, err := s.table("af", "short", "--output", "wide", "--no-headers")
		return strings.Join(lines, "\n"), err
	}, "short af d8424dc4 "+interfaceID+` False AGE afuId: found "d8424dc4" (8 characters), want in mode af the AFU id of a port: 32 hexadecimal digits `+
		"in lower case, not all f; the hash of an AOCX is possible in mode region only")

	s.step("two namespaces, one name, two functions: each pod gets its own")
	s.apply(one)
	s.create(s.pod("user", domain+"loopback", 1))
	s.inNamespace("mapping-lab", func() {
		s.apply(other)
		s.create(s.pod("user", domain+"loopback", 1))
		s.hasReport("user", reportOf(secondID, "dfl-port.1"))
		s.deletePods("user")
	})
	s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	s.step("an ephemeral container that is added later")
	calls := s.webhookCalls()
	s.mustKubectl("debug", "user", "--image", cluster.WorkloadImage, "--profile", "general", "--container", "later", "--arguments-only", "--", "hold")
	await(s, "ephemeral container", func() (bool, error) {
		pod, err := s.readPod("user")
		return err == nil && len(pod.Status.EphemeralContainerStatuses) == 1 && pod.Status.EphemeralContainerStatuses[0].State.Running != nil, err
	}, true)
	same(s, "calls of the webhook", s.webhookCalls(), calls)
	s.deletePods("user")

	s.step("mapping and pod in one file: ten times")
	var objects []any
	var pods []string
	for i := range 10 {
		name := fmt.Sprintf("new-%d", i)
		objects = append(objects, mapping{name, "af", afuID, interfaceID}, s.pod(name, domain+name, 1))
		pods = append(pods, name)
	}
	s.apply(objects...)
	for _, name := range pods {
		pod := must(s.readPod(name))
		same(s, "resources of "+name, requestedUnits(pod.Spec.Containers[0]), map[string]int64{one.resource(): 1})
	}
	s.deletePods(pods...)

	s.step("init container, sidecar and main container, each with a name")
	s.apply(mapping{"other", "af", otherAFU, interfaceID})
	pod := s.pod("user", domain+"loopback", 1)
	before, sidecar := pod.Spec.Containers[0], pod.Spec.Containers[0]
	before.Name, before.Args = "before", []string{"exit"}
	always := corev1.ContainerRestartPolicyAlways
	sidecar.Name, sidecar.RestartPolicy, sidecar.Resources.Limits = "sidecar", &always, units(domain+"other", 1)
	pod.Spec.InitContainers = []corev1.Container{before, sidecar}
	s.create(pod)
	s.reachesPhase("user", corev1.PodRunning)
	for name, want := range map[string]report{
		"before": reportOf(firstID, "dfl-port.0"), "sidecar": reportOf(secondID, "dfl-port.1"), "main": reportOf(firstID, "dfl-port.0"),
	} {
		await(s, "report of "+name, func() (report, error) { return s.lastReport("user", name) }, want)
	}
	s.deletePods("user")
	s.step("a Deployment")
	s.createDeployment(s.pod("worker", domain+"loopback", 1))
	s.rolledOut("worker")
	s.deleteDeployment("worker")

	s.step("pods without a name of the domain: the webhook is not called")
	calls = s.webhookCalls()
	plain := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := s.pod("plain", domain+"loopback", 1)
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		if change != nil {
			change(pod)
		}
		return pod
	}
	for _, pod := range []*corev1.Pod{
		plain(nil),
		plain(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = units("cpu", 1) }),
		plain(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = units("cpu", 1) }),
		plain(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{before}
			p.Spec.InitContainers[0].Resources = corev1.ResourceRequirements{}
		}),
		plain(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = units(s.resource, 1) }),
		plain(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = units("fpga.intel.com.example.com/loopback", 1)
		}),
		large(s.pod("large", "example.com/a", 1)),
	} {
		must(s.dryRun(pod))
	}
	same(s, "calls of the webhook", s.webhookCalls(), calls)
	s.step("100 containers and 100 init containers: the last container has a name of the domain")
	pod = large(s.pod("large", "example.com/a", 1))
	last := &pod.Spec.Containers[len(pod.Spec.Containers)-1]
	last.Resources.Limits = units(domain+"loopback", 1)
	pod = must(s.dryRun(pod))
	same(s, "its resources", requestedUnits(pod.Spec.Containers[len(pod.Spec.Containers)-1]), map[string]int64{one.resource(): 1})
	pod = must(s.dryRun(plain(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{before} })))
	same(s, "resources of an init container", requestedUnits(pod.Spec.InitContainers[0]), map[string]int64{one.resource(): 1})
	same(s, "calls of the webhook", s.webhookCalls(), calls+2)
	same(s, "conditions that could not be evaluated", s.sumMetric("apiserver_admission_match_condition_evaluation_errors_total"), 0)
}

// large returns a pod with 100 containers and 100 init containers, each with six resources.
func large(pod *corev1.Pod) *corev1.Pod {
	c := pod.Spec.Containers[0]
	c.Resources.Limits = units("example.com/a", 1)
	for _, name := range []string{"cpu", "memory", "ephemeral-storage", "example.com/b", "example.com/c"} {
		c.Resources.Limits[corev1.ResourceName(name)] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	pod.Spec.Containers = nil
	for i := range 100 {
		c.Name = fmt.Sprintf("c%d", i)
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		c.Name = fmt.Sprintf("i%d", i)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

// mappingRegion shows that in region mode, the webhook replaces the requested name with the region's resource, and adds
// two environment variables for the hook.
func mappingRegion(s *scene) {
	s.plug(first)
	s.step("helm install of both charts, with programming")
	s.installProgramming()
	s.installOperator()
	s.awaitAdvertised(region, 1, 1)
	s.apply(mapping{"nlb0", "region", afuID, interfaceID}, mapping{"nlb3", "region", otherAFU, interfaceID}, mapping{"card", "", "", interfaceID})
	pair := func(n int, afu string) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: fmt.Sprintf("FPGA_REGION_%d", n), Value: interfaceID}, {Name: fmt.Sprintf("FPGA_AFU_%d", n), Value: afu}}
	}
	s.step("a name is replaced by the region and a pair: the hook finds the AFU on the card")
	s.create(s.pod("user", domain+"nlb0", 1))
	s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	pod := must(s.readPod("user"))
	same(s, "resources", requestedUnits(pod.Spec.Containers[0]), map[string]int64{region: 1})
	same(s, "variables", pod.Spec.Containers[0].Env, pair(1, afuID))
	same(s, "events programming.present", s.countHookEvents("programming.present"), 1)
	s.deletePods("user")
	s.step("the user's variables are dropped, and kubectl shows a warning; others stay")
	pod = s.pod("forger", domain+"nlb0", 1)
	kept := corev1.EnvVar{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{kept, {Name: "FPGA_REGION_1", Value: otherInterface}, {Name: "FPGA_AFU_1", Value: otherAFU}}
	out := s.apply(pod)
	for _, name := range []string{"FPGA_REGION_1", "FPGA_AFU_1"} {
		if want := `Warning: container "main": ` + name + " was dropped: the names in resources choose the functions"; !strings.Contains(out, want) {
			s.failf("kubectl apply: found %s, want %q in it", out, want)
		}
	}
	s.hasReport("forger", reportOf(firstID, "dfl-port.0"))
	pod = must(s.readPod("forger"))
	same(s, "variables", pod.Spec.Containers[0].Env, append([]corev1.EnvVar{kept}, pair(1, afuID)...))
	s.deletePods("forger")
	s.step("a function that is not in the node's store: refused by the hook")
	s.startFails(s.pod("missing", domain+"nlb3", 1), "bitstream for interface "+interfaceID+" and AFU "+otherAFU+" in the store")
	s.step("a second pair of envFrom, which is not part of the pod: refused by the hook")
	s.mustKubectl("create", "configmap", "pair", "--from-literal", "FPGA_REGION_2="+interfaceID, "--from-literal", "FPGA_AFU_2="+otherAFU)
	s.cleanups = append(s.cleanups, func() {
		s.mustKubectl("delete", "configmap", "pair")
	})
	pod = s.pod("hidden", domain+"nlb0", 1)
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "pair"}}}}
	s.startFails(pod, "FPGA_REGION_2", "request as many cards as the env has pairs")
	s.step("an FpgaRegion is for mode regiondevel: no pair")
	s.startFails(s.pod("region", domain+"card", 1), "the container has no FPGA_REGION_n and FPGA_AFU_n")
	s.step("two functions in one container: each card for its pair")
	s.plugCard(second, 1, -1, otherAFU)
	s.awaitAdvertisedSoon(region, 2, 2)
	pod = s.pod("both", domain+"nlb0", 1)
	pod.Spec.Containers[0].Resources.Limits[domain+"nlb3"] = *resource.NewQuantity(1, resource.DecimalSI)
	s.create(pod)
	s.hasReport("both", reportOf(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	pod = must(s.readPod("both"))
	same(s, "resources", requestedUnits(pod.Spec.Containers[0]), map[string]int64{region: 2})
	same(s, "variables", pod.Spec.Containers[0].Env, append(pair(1, afuID), pair(2, otherAFU)...))
}

// mappingDenied shows which pods the webhook denies, and that kubectl shows why.
func mappingDenied(s *scene) {
	s.step("helm install of the operator")
	s.installOperator()
	s.apply(mapping{"nlb0", "af", afuID, interfaceID}, mapping{"nlb3", "region", otherAFU, interfaceID}, mapping{"card", "", "", interfaceID},
		mapping{"twice", "af", afuID, interfaceID}, mapping{"twice", "", "", interfaceID}, mapping{"short", "af", "d8424dc4", interfaceID})
	s.mappingsReady("af", "nlb0", "nlb3")
	const known = "usable names: card, nlb0, nlb3"
	for _, tt := range []struct {
		name   string
		change func(*corev1.Container) // changes a container that requests one nlb0
		words  []string
	}{
		{"a name that no object has", limits("nlb9", "1"), []string{`resource "fpga.intel.com/nlb9": found no AcceleratorFunction or FpgaRegion of that name in this namespace; ` + known}},
		{"a name that two objects have", limits("twice", "1"), []string{`resource "fpga.intel.com/twice": found both an AcceleratorFunction and an FpgaRegion of that name, want one`}},
		{"an object that is not Ready", limits("short", "1"), []string{`resource "fpga.intel.com/short": AcceleratorFunction short cannot be used: afuId: found "d8424dc4"`, known}},
		{"limits and requests differ", func(c *corev1.Container) { c.Resources.Requests = units(domain+"nlb0", 2) },
			[]string{`resource "fpga.intel.com/nlb0": found 1 in limits and 2 in requests, want the same number in both`}},
		{"only requests", func(c *corev1.Container) { c.Resources.Requests, c.Resources.Limits = c.Resources.Limits, nil },
			[]string{`resource "fpga.intel.com/nlb0": found none in limits and 1 in requests`}},
		{"a number that is not whole", limits("nlb0", "1100m"), []string{`resource "fpga.intel.com/nlb0": found 1100m units, want a whole number`}},
		{"more than 1024 units", limits("nlb0", "1025"), []string{`resource "fpga.intel.com/nlb0": found 1025 units, want at most 1024`}},
		{"names of two modes", func(c *corev1.Container) { c.Resources.Limits[domain+"nlb3"] = resource.MustParse("1") },
			[]string{`resource "fpga.intel.com/nlb3": found mode region, and mode af for resource "fpga.intel.com/nlb0", want one mode in a container`}},
		{"a resource that no object stands for", limits("region-"+otherInterface, "1"),
			[]string{`resource "fpga.intel.com/region-` + otherInterface + `": found no AcceleratorFunction or FpgaRegion of that name in this namespace; ` + known}},
	} {
		s.step("denied: %s", tt.name)
		pod := s.pod("user", domain+"nlb0", 1)
		tt.change(&pod.Spec.Containers[0])
		s.isDenied(pod, append(tt.words, `container "main": `)...)
	}
	s.step("denied: the name of another namespace; an init container")
	s.inNamespace("mapping-elsewhere", func() {
		s.isDenied(s.pod("user", domain+"nlb0", 1), `container "main": resource "fpga.intel.com/nlb0": found no `, "usable names: none")
	})
	pod := s.pod("user", domain+"nlb0", 1)
	before := pod.Spec.Containers[0]
	before.Name, before.Resources.Limits = "before", units(domain+"nlb9", 1)
	pod.Spec.InitContainers = []corev1.Container{before}
	s.isDenied(pod, `init container "before": resource "fpga.intel.com/nlb9": found no `)
	s.step("not denied: only limits, and the resource that an object stands for")
	must(s.dryRun(s.pod("user", domain+"nlb0", 1)))
	must(s.dryRun(s.pod("user", region, 1)))

	s.step("a Deployment's pod: kubectl describe rs shows the reason")
	s.createDeployment(s.pod("worker", domain+"late", 1))
	s.describeShows(`container "main": resource "fpga.intel.com/late": found no AcceleratorFunction or FpgaRegion of that name in this namespace; ` + known)
	s.step("the object is created: so is the Deployment's pod")
	s.apply(mapping{"late", "af", afuID, interfaceID})
	s.deploymentHasPod("worker", mapping{"late", "af", afuID, interfaceID}.resource())

	s.step("objects that the schema refuses")
	for _, tt := range []struct {
		object mapping
		words  string
	}{
		{mapping{"wrong", "regiondevel", afuID, interfaceID}, `spec.mode in body should match '^(af|region)$'`},
		{mapping{"wrong", "af", strings.ToUpper(afuID), interfaceID}, `spec.afuId in body should match '^[0-9a-f]{8,40}$'`},
		{mapping{"wrong", "", "", "ce48"}, `spec.interfaceId in body should match '^[0-9a-f]{8,32}$'`},
	} {
		_, err := s.kubectl(manifest(tt.object), "apply", "--filename", "-")
		s.refused("mapping", err, tt.words)
	}
}

// limits returns a function that makes a container request n devices under a single name.
func limits(name, n string) func(*corev1.Container) {
	return func(c *corev1.Container) {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceName(domain + name): resource.MustParse(n)}
	}
}

// describeShows waits until kubectl describe shows the words in a ReplicaSet's events.
func (s *scene) describeShows(words string) {
	await(s, "kubectl describe rs", func() (bool, error) {
		out, err := s.kubectl("", "describe", "rs")
		return strings.Contains(out, "FailedCreate") && strings.Contains(out, words), err
	}, true)
}

// deploymentHasPod waits until a Deployment has a pod that requests one of the resource's devices.
func (s *scene) deploymentHasPod(name, resource string) {
	await(s, "pod of Deployment "+name, func() ([]map[string]int64, error) {
		pods, err := s.Client.CoreV1().Pods(s.users).List(s.ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return nil, err
		}
		var all []map[string]int64
		for _, pod := range pods.Items {
			all = append(all, requestedUnits(pod.Spec.Containers[0]))
		}
		return all, nil
	}, []map[string]int64{{resource: 1}})
}

// mappingWebhookDown shows that while none of the operator's replicas respond, only pods that request a function are
// affected.
func mappingWebhookDown(s *scene) {
	nlb0 := mapping{"nlb0", "af", afuID, interfaceID}
	plain := s.pod("plain", "cpu", 0)
	s.step("helm install of the operator")
	s.installOperator()
	s.apply(nlb0)
	s.step("no replicas: a pod without a name runs, one with a name is refused")
	s.scale(0)
	s.create(plain)
	s.reachesPhase("plain", corev1.PodRunning)
	_, err := s.kubectl(manifest(s.pod("user", domain+"nlb0", 1)), "apply", "--filename", "-")
	s.refused("pod", err, "failed calling webhook", "no endpoints available for service")
	s.step("kubectl describe rs shows the reason for a Deployment")
	s.createDeployment(s.pod("worker", domain+"nlb0", 1))
	s.describeShows("no endpoints available for service")
	s.step("the replicas are back: its pod is created")
	s.scale(2)
	s.deploymentHasPod("worker", nlb0.resource())
	s.deleteDeployment("worker")
	s.deletePods("plain")
	s.step("stopped processes of the replicas: refused after the webhook's timeout")
	s.signalOperators(syscall.SIGSTOP)
	s.create(plain)
	_, err = s.kubectl(manifest(s.pod("user", domain+"nlb0", 1)), "apply", "--filename", "-")
	s.signalOperators(syscall.SIGCONT)
	s.refused("pod", err, "failed calling webhook", "context deadline exceeded")
	s.deletePods("plain")
	s.step("failurePolicy Ignore by helm upgrade, no replicas: created unchanged, and stays pending")
	must(s.helmOperator("upgrade", "--reset-then-reuse-values", "--set", "webhook.failurePolicy=Ignore"))
	s.scale(0)
	s.create(s.pod("user", domain+"nlb0", 1))
	pod := must(s.readPod("user"))
	same(s, "resources", requestedUnits(pod.Spec.Containers[0]), map[string]int64{domain + "nlb0": 1})
	s.unschedulable("user")
}

// signalOperators sends a signal to the process of each of the operator's replicas.
func (s *scene) signalOperators(signal syscall.Signal) {
	pods := must(s.operators())
	for _, pod := range pods {
		s.check(syscall.Kill(s.pid(pod.Status.ContainerStatuses[0].ContainerID), signal))
	}
}

// mappingIntel shows that the operator's chart adopts an Intel installation's CRDs and objects, and that helm uninstall
// keeps them.
func mappingIntel(s *scene) {
	s.step("Intel's CRDs, with objects")
	s.cleanups = append(s.cleanups, s.removeOperator)
	must(s.kubectl(intelCRDs, "apply", "--filename", "-"))
	s.mustKubectl("wait", "--for", "condition=Established", "--timeout", "1m", "crd", functionsCRD, regionsCRD)
	objects := []any{mapping{"old", "af", afuID, interfaceID}, mapping{"odd", "af-old", afuID, interfaceID}, mapping{"card", "", "", interfaceID}}
	s.apply(objects...)
	uids := func() string {
		out := must(s.kubectl("", "get", "af,fpga", "--output", "jsonpath={.items[*].metadata.uid}"))
		return out
	}
	before := uids()
	s.step("helm install without --take-ownership: refused")
	_, err := s.helmOperator("install", "--create-namespace")
	s.refused("helm install", err, functionsCRD, "invalid ownership metadata")
	s.step("helm install --take-ownership --force-conflicts: the objects get a status")
	s.installOperator("--take-ownership", "--force-conflicts")
	functions := []string{
		"NAME MODE AFU INTERFACE READY AGE RESOURCE MESSAGE",
		"odd af-old " + afuID + " " + interfaceID + ` False AGE mode: found "af-old", want "af" or "region"`,
		"old af " + afuID + " " + interfaceID + " True AGE " + mapping{"old", "af", afuID, interfaceID}.resource() + " " + usable,
	}
	await(s, "kubectl get af", func() ([]string, error) { return s.table("af", "--output", "wide") }, functions)
	pod := must(s.dryRun(s.pod("user", domain+"old", 1)))
	same(s, "resources", len(requestedUnits(pod.Spec.Containers[0])), 1)
	same(s, "objects", uids(), before)
	s.step("helm uninstall keeps CRDs and objects; the webhook is gone")
	s.must("helm", "uninstall", operator, "--namespace", operatorNamespace, "--wait", "--timeout", "1m")
	same(s, "objects", uids(), before)
	pod = must(s.dryRun(s.pod("user", domain+"old", 1)))
	same(s, "resources", requestedUnits(pod.Spec.Containers[0]), map[string]int64{domain + "old": 1})
	s.step("helm install again, without mappings; helm upgrade with them")
	s.installOperator("--set", "mappings.enabled=false")
	must(s.helmOperator("upgrade", "--set", "mappings.enabled=true"))
	same(s, "objects", uids(), before)
	pod = must(s.dryRun(s.pod("user", domain+"old", 1)))
	same(s, "resources", requestedUnits(pod.Spec.Containers[0]), map[string]int64{mapping{"old", "af", afuID, interfaceID}.resource(): 1})
}

// intelCRDs defines CRDs with the same group, names and schemas as Intel's, including Intel's pattern for modes, but
// without the status subresource.
const intelCRDs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + functionsCRD + `}
spec:
  group: fpga.intel.com
  scope: Namespaced
  names: {kind: AcceleratorFunction, listKind: AcceleratorFunctionList, plural: acceleratorfunctions, singular: acceleratorfunction, shortNames: [af]}
  versions:
  - {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, required: [spec], properties: {
      status: {type: object},
      spec: {type: object, required: [afuId, interfaceId, mode], properties: {
        afuId: {type: string, pattern: '^[0-9a-f]{8,40}$'},
        interfaceId: {type: string, pattern: '^[0-9a-f]{8,32}$'},
        mode: {type: string, pattern: '^af|region$'}}}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + regionsCRD + `}
spec:
  group: fpga.intel.com
  scope: Namespaced
  names: {kind: FpgaRegion, listKind: FpgaRegionList, plural: fpgaregions, singular: fpgaregion, shortNames: [fpga]}
  versions:
  - {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, required: [spec], properties: {
      status: {type: object},
      spec: {type: object, required: [interfaceId], properties: {interfaceId: {type: string, pattern: '^[0-9a-f]{8,32}$'}}}}}}}
`
