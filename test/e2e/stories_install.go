package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// manifests applies the repository's manifests as described in docs/install.md, without a simulated node.
func manifests(s *scene) {
	s.step("kubectl apply: ready on a node without card")
	text := must(os.ReadFile(filepath.Join(s.tree, "deploy", "manifests", "accelerator-device-plugin.yaml")))
	file := filepath.Join(s.out, "manifests.yaml")
	const image = "accelerator-device-plugin:"
	s.check(os.WriteFile(file, []byte(strings.ReplaceAll(string(text), image+"devel", image+s.tag())), 0o644))
	s.must("kubectl", "apply", "--filename", file)
	s.cleanups = append(s.cleanups, func() {
		s.must("kubectl", "delete", "--wait", "--ignore-not-found", "--filename", file)
	})
	s.must("kubectl", "--namespace", namespace, "rollout", "status", "--timeout", "1m", "daemonset/accelerator-device-plugin")
	got := must(s.advertised("b-com.com/accelerator"))
	same(s, "advertised", got, amount{-1, -1})
	s.step("kubectl delete")
	s.must("kubectl", "delete", "--wait", "--filename", file)
}

// refused shows that Helm rejects unknown and invalid values before it sends any requests to the API server.
func refused(s *scene) {
	for _, tt := range []struct{ name, value, text string }{
		{"an unknown key", "nodeAnnotations=true", "additional properties 'nodeAnnotations' not allowed"},
		{"an unknown mode", "config.mode=afu", "'single', 'af', 'region', 'regiondevel', 'pool'"},
		{"a value of the wrong type", "config.flapLimit=often", "got string, want integer"},
		{"a path that the chart sets", "config.sysfsRoot=/sys", "config.sysfsRoot: set by the chart"},
		{"neither surge nor unavailable", "updateStrategy.rollingUpdate.maxSurge=0", "want one of them 0 and the other not"},
	} {
		s.step("refused: %s", tt.name)
		_, err := s.helm("install", s.settings(tt.value)...)
		s.refused(tt.value, err, tt.text)
	}
	s.step("no object was created")
	list := s.must("helm", "list", "--all-namespaces", "--short")
	same(s, "releases", list, "")
	sets := must(s.Client.AppsV1().DaemonSets(namespace).List(s.ctx, metav1.ListOptions{}))
	same(s, "daemon sets", len(sets.Items), 0)
}

// helmTest shows that helm test, which starts a pod that requests one device, passes if a device is free and fails if
// none is free or no resource is set.
func helmTest(s *scene) {
	s.step("helm install")
	s.install()
	s.testsRelease(func() { s.plug(first); s.awaitAdvertised(s.resource, 1, 1) }, func() { s.userGets("next", firstID, "dfl-port.0") })
	s.step("in mode af helm test fails without test.resource, with the reason")
	s.mustHelm("upgrade", s.settings("config.mode=af")...)
	_, err := s.helm("test")
	s.refused("helm test", err, "test.resource: found none", "in mode af")
}

// testsRelease runs helm test twice: after plug has added a card, and after hold has created a pod that holds the card.
func (s *scene) testsRelease(plug, hold func()) {
	s.cleanups = append(s.cleanups, func() {
		s.must("kubectl", "--namespace", namespace, "delete", "job", "--ignore-not-found", "fpga-accelerator-device-plugin-test")
	})
	s.step("a card is plugged: it stays free, and helm test passes")
	plug()
	s.mustHelm("test")
	s.noTestPods()
	s.step("the card is free again")
	hold()
	s.step("helm test with all cards held ends at its deadline, and leaves no pending pod")
	_, err := s.helm("test")
	s.refused("helm test", err, "fpga-accelerator-device-plugin-test")
	s.noTestPods()
}

// noTestPods waits until none of helm test's pods are pending or running.
func (s *scene) noTestPods() {
	await(s, "pods of helm test", func() (int, error) {
		pods, err := s.Client.CoreV1().Pods(namespace).List(s.ctx, metav1.ListOptions{
			LabelSelector: "app.kubernetes.io/name=accelerator-device-plugin-test",
			FieldSelector: "status.phase!=Failed,status.phase!=Succeeded",
		})
		if err != nil {
			return -1, err
		}
		return len(pods.Items), nil
	}, 0)
}

// modeAnnotation is the node annotation that overrides the mode.
const modeAnnotation = "fpga.intel.com/device-plugin-mode"

// annotation shows that the node annotation overrides the mode, and that the service account has only the permissions
// that are needed for this.
func annotation(s *scene) {
	const region = "fpga.intel.com/region-" + interfaceID
	s.plug(first)
	s.step("helm install with nodeAnnotation: mode single")
	s.install("nodeAnnotation=true")
	s.awaitAdvertised(s.resource, 1, 1)
	for _, step := range []struct{ mode, resource, gone string }{
		{"af", afResource, s.resource},
		{"region", region, afResource},
	} {
		s.step("the annotation is %s", step.mode)
		s.must("kubectl", "annotate", "--overwrite", "node", cluster.NodeName, modeAnnotation+"="+step.mode)
		s.awaitAdvertised(step.resource, 1, 1)
		s.awaitAdvertised(step.gone, 0, 0)
	}
	s.step("a pod gets the region")
	s.create(s.pod("user", region, 1))
	s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	s.deletePods("user")
	s.step("the annotation is removed: mode single again")
	s.must("kubectl", "annotate", "node", cluster.NodeName, modeAnnotation+"-")
	s.awaitAdvertised(s.resource, 1, 1)
	s.awaitAdvertised(region, 0, 0)
	s.step("the account may list and watch nodes only")
	s.hasRights(daemonAccount, map[string]bool{
		"list nodes": true, "watch nodes": true, "get nodes": false, "patch nodes": false,
		"list pods": false, "get secrets": false, "create pods": false, "create events": false,
	})
}

// hasRights checks an account's permissions in all namespaces. An account is given as NAMESPACE:NAME, and a permission
// as VERB RESOURCE.
func (s *scene) hasRights(account string, want map[string]bool) {
	got := map[string]bool{}
	for _, action := range slices.Sorted(maps.Keys(want)) {
		verb, resource, _ := strings.Cut(action, " ")
		out, _ := s.Run(s.ctx, "kubectl", "auth", "can-i", verb, resource, "--all-namespaces",
			"--as", "system:serviceaccount:"+account)
		got[action] = out == "yes\n"
	}
	same(s, "rights", got, want)
}

// pool shows that pool mode works without hardware.
func pool(s *scene) {
	s.step("helm install: 8 units")
	s.install("config.mode=pool", "config.accelNbunits=8")
	s.awaitAdvertised(s.resource, 8, 8)
	s.step("a pod gets three of them")
	s.create(s.pod("three", s.resource, 3))
	s.reachesPhase("three", corev1.PodRunning)
	var r report
	await(s, "number of units", func() (n int, err error) {
		r, err = s.lastReport("three", "main")
		return len(strings.Split(r.Env["ACCELERATOR_UNITS"], ",")), err
	}, 3)
	same(s, "nodes", r.Nodes, map[string]string{})
	s.step("a pod that requests six is unschedulable")
	s.create(s.pod("six", s.resource, 6))
	s.unschedulable("six")
}
