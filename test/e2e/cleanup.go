package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// cleanUp runs the story's cleanups in reverse order, and then removes the story's objects.
func (s *scene) cleanUp() {
	var failed error
	for _, clean := range slices.Backward(s.cleanups) {
		failed = errors.Join(failed, s.try(clean))
	}
	s.check(failed)
	now := int64(0)
	s.check(s.Client.CoreV1().Pods(s.users).DeleteCollection(s.ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}))
	await(s, "number of pods left", func() (int, error) {
		pods, err := s.Client.CoreV1().Pods(s.users).List(s.ctx, metav1.ListOptions{})
		if err != nil {
			return -1, err
		}
		return len(pods.Items), nil
	}, 0)
	if s.apart {
		return
	}
	s.uninstall()
	s.must("kubectl", "annotate", "node", cluster.NodeName, modeAnnotation+"-")
}

// writeState writes the cluster's state to a directory, for a story that failed.
func (s *scene) writeState(dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		fmt.Println("  ", err)
		return
	}
	for file, args := range map[string][]string{
		"pods.yaml":        {"get", "pods", "--all-namespaces", "-o", "yaml"},
		"node.yaml":        {"get", "nodes", "-o", "yaml"},
		"events.txt":       {"get", "events", "--all-namespaces", "-o", "wide"},
		"daemon.log":       {"logs", "--namespace", namespace, "--selector", selector, "--tail", "-1"},
		"previous.log":     {"logs", "--namespace", namespace, "--selector", selector, "--tail", "-1", "--previous"},
		"workloads.log":    {"logs", "--selector", "!nothing", "--prefix", "--tail", "-1"},
		"operator.log":     {"logs", "--namespace", operatorNamespace, "--selector", operatorSelector, "--prefix", "--tail", "-1"},
		"cert-manager.log": {"logs", "--namespace", certManager, "--selector", "app.kubernetes.io/instance=" + certManager, "--prefix", "--tail", "-1"},
		"claims.yaml":      {"get", "resourceclaims,resourceslices,deviceclasses", "--all-namespaces", "-o", "yaml"},
		"webhooks.yaml":    {"get", "mutatingwebhookconfigurations", "-o", "yaml"},
		"plugins.log":      {"logs", "--namespace", operatorNamespace, "--selector", "app.kubernetes.io/name=accelerator-device-plugin", "--prefix", "--tail", "-1"},
		"plugins.yaml":     {"get", "fdp", "-o", "yaml"},
		"mappings.yaml":    {"get", "af,fpga", "--all-namespaces", "-o", "yaml"},
	} {
		out, err := s.Run(s.ctx, "kubectl", args...)
		if err != nil {
			out += err.Error() + "\n"
		}
		_ = os.WriteFile(filepath.Join(dir, file), []byte(out), 0o644)
	}
	fmt.Printf("  state of the cluster in %s\n", dir)
}
