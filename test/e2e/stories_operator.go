package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

const pluginsCRD = "fpgadeviceplugins.deviceplugin.intel.com"

// installPlugins installs the operator for FpgaDevicePlugins, without the webhook.
func (s *scene) installPlugins() {
	s.step("helm install the operator, for FpgaDevicePlugins")
	s.installOperator("--set", "mappings.enabled=false,devicePlugins.enabled=true,replicas=1")
	s.cleanups = append(s.cleanups, s.removePlugins)
}

// removePlugins deletes all FpgaDevicePlugins and their CRD, and waits until the plugins' objects are gone.
func (s *scene) removePlugins() {
	if _, err := s.kubectl("", "get", "crd", pluginsCRD); err != nil {
		return // already removed
	}
	s.mustKubectl("delete", "fdp", "--all")
	s.noPlugins()
	s.mustKubectl("delete", "crd", pluginsCRD)
}

// noPlugins waits until the operator's namespace doesn't contain any plugin objects.
func (s *scene) noPlugins() {
	await(s, "objects of plugins", func() (string, error) {
		return s.Run(s.ctx, "kubectl", "get", "daemonsets,pods,configmaps,serviceaccounts,networkpolicies,clusterroles", "--output", "name",
			"--namespace", operatorNamespace, "--selector", "app.kubernetes.io/name=accelerator-device-plugin")
	}, "")
}

// pluginValues returns the values for a plugin that serves the simulated node under the story's resource name.
func (s *scene) pluginValues() map[string]any {
	return map[string]any{
		"simulatedNode": simulated, "stateDir": state, "minReadySeconds": 0,
		"config": map[string]any{"mode": "single", "resourceName": s.resource, "recoveryHold": "1s"},
	}
}

// fdp creates or updates an FpgaDevicePlugin.
func (s *scene) fdp(name string, spec map[string]any) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": "deviceplugin.intel.com/v1", "kind": "FpgaDevicePlugin", "metadata": map[string]string{"name": name}, "spec": spec})
	s.check(err)
	must(s.kubectl(string(text), "apply", "--filename", "-"))
}

// patchFDP merges a patch into an FpgaDevicePlugin's spec.
func (s *scene) patchFDP(name string, spec map[string]any) {
	text := must(json.Marshal(map[string]any{"spec": spec}))
	s.mustKubectl("patch", "fdp", name, "--type", "merge", "--patch", string(text))
}

// hasConditions waits until an FpgaDevicePlugin has exactly these conditions, given as TYPE=STATUS/REASON.
func (s *scene) hasConditions(name string, conditions ...string) {
	await(s, "conditions of "+name, func() ([]string, error) {
		out, err := s.kubectl("", "get", "fdp", name, "--output", `jsonpath={range .status.conditions[*]}{.type}={.status}/{.reason} {end}`)
		return strings.Fields(out), err
	}, conditions)
}

// hasMessage waits until a condition's message contains these words.
func (s *scene) hasMessage(name, condition, words string) {
	await(s, condition+" of "+name, func() (bool, error) {
		out, err := s.kubectl("", "get", "fdp", name, "--output", `jsonpath={.status.conditions[?(@.type=="`+condition+`")].message}`)
		if err == nil && !strings.Contains(out, words) {
			err = fmt.Errorf("found %q, want %q in it", out, words)
		}
		return err == nil, err
	}, true)
}

const (
	accepted  = "Accepted=True/Applied"
	available = "Available=True/Ready"
)

// pluginObjects returns an FpgaDevicePlugin's DaemonSet, and the DaemonSet's pods that aren't being deleted.
func (s *scene) pluginObjects(name string) (*appsv1.DaemonSet, []corev1.Pod) {
	set := must(s.Client.AppsV1().DaemonSets(operatorNamespace).Get(s.ctx, name+"-accelerator-device-plugin", metav1.GetOptions{}))
	pods := must(s.Client.CoreV1().Pods(operatorNamespace).List(s.ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)}))
	return set, slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// operatorInstalls shows that an FpgaDevicePlugin installs the plugin, and that its status shows the number of devices.
// Changing the mode starts a rollout, and deleting the FpgaDevicePlugin deletes its objects.
func operatorInstalls(s *scene) {
	s.plug(first, second)
	s.installPlugins()
	s.step("one object: the node offers its devices, the status has the numbers")
	values := s.pluginValues()
	config := values["config"].(map[string]any)
	config["resourceNamespace"] = "operator.e2e.b-com.com" // the node still lists earlier stories' resources
	// A rule names the resource, so that its name doesn't depend on the mode.
	config["resources"] = []any{map[string]any{"name": s.resource, "match": map[string]any{"family": "dfl"}}}
	s.fdp("fpga", map[string]any{"values": values})
	s.hasConditions("fpga", accepted, available)
	s.awaitAdvertised(s.resource, 2, 2)
	await(s, "kubectl get", func() ([]string, error) { return s.table("fdp") },
		[]string{"NAME DESIRED READY DEVICES UNHEALTHY AVAILABLE AGE", "fpga 1 1 2 0 True AGE"})
	s.userGets("user", firstID, "dfl-port.0")
	s.step("another mode: rolled out, the devices are away for at most %v", namingAway)
	_, before := s.pluginObjects("fpga")
	seen := s.sampled(2, func() {
		s.patchFDP("fpga", map[string]any{"mode": "af", "values": map[string]any{"config": map[string]any{"mode": nil}}})
		await(s, "another pod", func() (bool, error) {
			_, pods := s.pluginObjects("fpga")
			return len(pods) == 1 && pods[0].Name != before[0].Name && ready(pods[0]), nil
		}, true)
		s.hasConditions("fpga", accepted, available)
		s.awaitAdvertised(s.resource, 2, 2)
	})
	s.step("  for %.2f s", seen.Kubelet.Gap.Seconds())
	if seen.Kubelet.Gap > namingAway {
		s.failf("found samples with less than all devices: %+v", seen)
	}
	s.step("a device breaks, and is healthy again")
	s.breakCard(first)
	await(s, "unhealthy", func() (string, error) {
		return s.kubectl("", "get", "fdp", "fpga", "--output", "jsonpath={.status.devices} {.status.unhealthyDevices} {.status.nodeNames}")
	}, `2 1 ["`+cluster.NodeName+`"]`)
	s.healCard(first)
	s.awaitAdvertised(s.resource, 2, 2)
	s.step("kubectl events shows the conditions")
	await(s, "events", func() (bool, error) {
		out, err := s.kubectl("", "events", "--for", "FpgaDevicePlugin/fpga", "--namespace", "default")
		return strings.Contains(out, "Applied") && strings.Contains(out, "nodes have a ready plugin"), err
	}, true)
	s.step("kubectl delete: its objects are deleted, the pod that holds a device keeps running")
	s.mustKubectl("delete", "fdp", "fpga")
	s.noPlugins()
	s.reachesPhase("user", corev1.PodRunning)
}

// operatorValues shows that values that the chart rejects don't change any objects, and that the old pod keeps running
// if the new image doesn't exist.
func operatorValues(s *scene) {
	s.plug(first)
	s.installPlugins()
	s.fdp("fpga", map[string]any{"values": s.pluginValues()})
	s.hasConditions("fpga", accepted, available)
	s.awaitAdvertised(s.resource, 1, 1)
	set, _ := s.pluginObjects("fpga")
	for _, tt := range []struct{ name, key, value, message string }{
		{"an unknown key", "colour", `"red"`, "additional properties 'colour' not allowed"},
		{"a value of the wrong type", "minReadySeconds", `"soon"`, "values.minReadySeconds: got string, want integer"},
		{"an error of a template", "scrapers", `[{"podSelector":{}}]`, "scrapers: found with config.httpAddress empty"},
	} {
		s.step("refused: %s", tt.name)
		patch := map[string]any{tt.key: json.RawMessage(tt.value)}
		if tt.key == "scrapers" {
			patch["config"] = map[string]any{"httpAddress": ""}
		}
		s.patchFDP("fpga", map[string]any{"values": patch})
		s.hasConditions("fpga", "Accepted=False/InvalidValues", "Available=False/InvalidValues")
		s.hasMessage("fpga", "Accepted", tt.message)
		s.patchFDP("fpga", map[string]any{"values": map[string]any{tt.key: nil, "minReadySeconds": 0, "config": map[string]any{"httpAddress": nil}}})
		s.hasConditions("fpga", accepted, available)
	}
	now, _ := s.pluginObjects("fpga")
	same(s, "generation of the DaemonSet", now.Generation, set.Generation)
	s.step("an image that does not exist: the condition has the reason, the old pod keeps running")
	s.always(1, func() {
		s.patchFDP("fpga", map[string]any{"image": "docker.io/library/accelerator-device-plugin:none", "values": map[string]any{"image": map[string]any{"pullPolicy": "Never"}}})
		s.hasConditions("fpga", accepted, "Available=False/PodsWaiting")
		s.hasMessage("fpga", "Available", "ErrImageNeverPull")
		s.hasMessage("fpga", "Available", "1 of 1 nodes have a ready plugin")
		s.step("the image of the operator's version again")
		s.patchFDP("fpga", map[string]any{"image": nil})
		s.hasConditions("fpga", accepted, available)
	})
}

// operatorDrift shows that the operator reverts changes made by others, even if they were made while no operator was
// running.
func operatorDrift(s *scene) {
	s.plug(first)
	s.installPlugins()
	values := s.pluginValues()
	values["events"] = true // adds a ClusterRole
	s.fdp("fpga", map[string]any{"values": values})
	s.hasConditions("fpga", accepted, available)
	s.awaitAdvertised(s.resource, 1, 1)
	const name = "fpga-accelerator-device-plugin"
	set, _ := s.pluginObjects("fpga")
	image := set.Spec.Template.Spec.Containers[0].Image
	repaired := func() {
		await(s, "objects", func() (string, error) {
			set, err := s.Client.AppsV1().DaemonSets(operatorNamespace).Get(s.ctx, name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			_, err = s.Client.CoreV1().ConfigMaps(operatorNamespace).Get(s.ctx, name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			role, err := s.Client.RbacV1().ClusterRoles().Get(s.ctx, operatorNamespace+"-"+name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(set.Spec.Template.Spec.Containers[0].Image, len(role.Rules)), nil
		}, image+"2")
	}
	drift := func() {
		_, err := s.Client.AppsV1().DaemonSets(operatorNamespace).Patch(s.ctx, name, types.StrategicMergePatchType,
			[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"accelerator-device-plugin","image":"docker.io/library/accelerator-device-plugin:none"}]}}}}`), metav1.PatchOptions{})
		s.check(err)
		s.check(s.Client.CoreV1().ConfigMaps(operatorNamespace).Delete(s.ctx, name, metav1.DeleteOptions{}))
		must(s.Client.RbacV1().ClusterRoles().Patch(s.ctx, operatorNamespace+"-"+name, types.MergePatchType, []byte(`{"rules":[]}`), metav1.PatchOptions{}))
	}
	s.step("the image is changed, the ConfigMap deleted, the ClusterRole emptied: repaired")
	drift()
	repaired()
	s.step("the same while no operator runs: repaired when it runs again")
	s.scale(0)
	drift()
	s.scale(1)
	repaired()
	s.hasConditions("fpga", accepted, available)
	s.step("events off: the ClusterRole is deleted")
	s.patchFDP("fpga", map[string]any{"values": map[string]any{"events": false}})
	await(s, "ClusterRole gone", func() (bool, error) {
		_, err := s.Client.RbacV1().ClusterRoles().Get(s.ctx, operatorNamespace+"-"+name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}, true)
	s.hasConditions("fpga", accepted, available)
	s.step("the DaemonSet is deleted: created again")
	s.check(s.Client.AppsV1().DaemonSets(operatorNamespace).Delete(s.ctx, name, metav1.DeleteOptions{}))
	await(s, "DaemonSet", func() (bool, error) {
		now, err := s.Client.AppsV1().DaemonSets(operatorNamespace).Get(s.ctx, name, metav1.GetOptions{})
		return err == nil && now.UID != set.UID, err
	}, true)
	s.hasConditions("fpga", accepted, available)
	s.awaitAdvertised(s.resource, 1, 1)
}

// operatorTwo shows that if two FpgaDevicePlugins match the same nodes, only the older one takes effect.
func operatorTwo(s *scene) {
	s.plug(first)
	s.installPlugins()
	s.fdp("older", map[string]any{"values": s.pluginValues()})
	s.hasConditions("older", accepted, available)
	s.awaitAdvertised(s.resource, 1, 1)
	s.step("another object for the same node is refused")
	s.fdp("younger", map[string]any{"values": s.pluginValues(), "nodeSelector": map[string]string{"kubernetes.io/hostname": cluster.NodeName}})
	s.hasConditions("younger", "Accepted=False/SameNodes", "Available=False/SameNodes")
	s.hasMessage("younger", "Accepted", "node selector of older")
	s.hasConditions("older", accepted, available)
	s.step("the older one gets other nodes")
	s.patchFDP("older", map[string]any{"nodeSelector": map[string]string{"kubernetes.io/hostname": "another"}})
	s.hasConditions("older", accepted, "Available=True/NoNodes")
	s.hasConditions("younger", accepted, available)
	s.awaitAdvertised(s.resource, 1, 1)
	s.step("the older one matches the node again: its plugin replaces that of the younger one")
	s.patchFDP("older", map[string]any{"nodeSelector": nil})
	s.hasConditions("younger", "Accepted=False/SameNodes", "Available=False/SameNodes")
	s.hasConditions("older", accepted, available)
	s.step("the older one is deleted: the younger one is installed")
	s.mustKubectl("delete", "fdp", "older")
	s.hasConditions("younger", accepted, available)
	s.awaitAdvertised(s.resource, 1, 1)
	s.step("another owner has an object with a name of a third one: refused")
	_, err := s.Client.CoreV1().ServiceAccounts(operatorNamespace).Create(s.ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "third-accelerator-device-plugin"}}, metav1.CreateOptions{})
	s.check(err)
	s.cleanups = append(s.cleanups, func() {
		s.check(s.Client.CoreV1().ServiceAccounts(operatorNamespace).Delete(s.ctx, "third-accelerator-device-plugin", metav1.DeleteOptions{}))
	})
	s.patchFDP("younger", map[string]any{"nodeSelector": map[string]string{"a": "x"}})
	s.fdp("third", map[string]any{"values": s.pluginValues(), "nodeSelector": map[string]string{"a": "y"}})
	s.hasConditions("third", "Accepted=False/ForeignObject", "Available=False/ForeignObject")
}

// operatorUpgrade shows that upgrading the operator upgrades the plugins, even if the operator is killed halfway.
func operatorUpgrade(s *scene) {
	s.plug(first)
	s.installPlugins()
	s.fdp("fpga", map[string]any{"values": s.pluginValues()})
	s.hasConditions("fpga", accepted, available)
	s.awaitAdvertised(s.resource, 1, 1)
	s.userGets("user", firstID, "dfl-port.0")
	s.step("helm upgrade, and the operator is killed: the plugins are rolled out without a gap")
	s.always(1, func() {
		must(s.helmOperator("upgrade", "--reset-then-reuse-values", "--set", "image.tag="+nextVersion, "--set", "devicePlugins.image=accelerator-device-plugin:"+nextVersion))
		s.signalOperators(syscall.SIGKILL)
		await(s, "image of the plugin", func() (string, error) {
			_, pods := s.pluginObjects("fpga")
			if len(pods) != 1 || !ready(pods[0]) {
				return "", errors.New("the plugin does not have exactly one ready pod")
			}
			return pods[0].Spec.Containers[0].Image, nil
		}, "accelerator-device-plugin:"+nextVersion)
		s.hasConditions("fpga", accepted, available)
	})
	s.reachesPhase("user", corev1.PodRunning)
	s.step("helm uninstall: the object and its plugin stay")
	s.must("helm", "uninstall", operator, "--namespace", operatorNamespace)
	s.awaitAdvertised(s.resource, 1, 1)
	_, pods := s.pluginObjects("fpga")
	same(s, "plugins", len(pods), 1)
	s.step("so does the policy that limits the plugin's right to write the status of nodes")
	var names []string
	for _, b := range must(s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(s.ctx, metav1.ListOptions{LabelSelector: operatorSelector})).Items {
		must(s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(s.ctx, b.Spec.PolicyName, metav1.GetOptions{}))
		names = append(names, strings.TrimPrefix(b.Name, operatorNamespace+"-"))
	}
	same(s, "policies", len(names), 1)
	s.step("  %s", names)
}

// operatorIntel shows that Intel's unmodified sample of an FpgaDevicePlugin installs a plugin with the hook.
func operatorIntel(s *scene) {
	const label = "intel.feature.node.kubernetes.io/fpga-arria10"
	s.plug(first)
	s.installPlugins()
	// The sample uses the chart's default directories on this machine. Remove those that didn't exist before.
	for _, dir := range []string{"/opt/accelerator-fpga", "/run/accelerator-fpga", "/var/run/cdi"} {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			s.cleanups = append(s.cleanups, func() { s.check(os.RemoveAll(dir)) })
		}
	}
	s.cleanups = append(s.cleanups, func() {
		s.removePlugins()
		_, err := s.Run(s.ctx, "kubectl", "label", "node", cluster.NodeName, label+"-")
		s.check(errors.Join(err, os.RemoveAll(specs)))
	})
	s.step("Intel's sample: no node has its label")
	s.must("kubectl", "apply", "--filename", filepath.Join(s.tree, "operator", "plugins", "testdata", "intel.yaml"))
	const name = "fpgadeviceplugin-sample"
	hints := []string{"ImageReplaced=True/IntelsImage", "InitImageUnneeded=True/OneImage"}
	s.hasConditions(name, append([]string{accepted, "Available=True/NoNodes"}, hints...)...)
	s.step("the node gets the label: the plugin is installed")
	s.must("kubectl", "label", "node", cluster.NodeName, label+"=true")
	s.hasConditions(name, append([]string{accepted, available}, hints...)...)
	s.hasMessage(name, "ImageReplaced", "intel/intel-fpga-plugin:0.34.0 is Intel's plugin")
	s.step("with the simulated node: the hook checks the card of a pod")
	s.patchFDP(name, map[string]any{"values": map[string]any{"simulatedNode": simulated, "config": map[string]any{"cdiDir": specs, "recoveryHold": "1s"}}})
	s.hasConditions(name, append([]string{accepted, available}, hints...)...)
	s.awaitAdvertised(region, 1, 1)
	s.create(s.podWithPairs("user", 1, interfaceID, afuID))
	s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	s.deletePods("user")
	s.awaitAdvertisedSoon(region, 1, 1)
	s.startFails(s.podWithPairs("none", 1), "the container has no FPGA_REGION_n and FPGA_AFU_n")
}
