package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// kubernetesEvents shows that the daemon writes Events about a device, both for the pod that holds the device and for
// the node.
func kubernetesEvents(s *scene) {
	s.plug(first)
	s.step("helm install with events")
	s.install("events=true")
	s.awaitAdvertised(s.resource, 1, 1)
	s.userGets("user", firstID, "dfl-port.0")
	s.deviceEvents()
	s.health("user", map[string]string{firstID: "Unhealthy"})
	s.step("the pod ends: Event of the node")
	s.deletePods("user")
	s.hasEvent(aboutNode(), "DeviceReleased", corev1.EventTypeNormal)
	s.step("the account may write events and get pods only")
	s.hasRights(daemonAccount, map[string]bool{
		"create events": true, "patch events": true, "get pods": true,
		"list events": false, "list pods": false, "list nodes": false, "get secrets": false, "create pods": false,
	})
}

// aboutNode refers to the node the same way the daemon's Events do.
func aboutNode() corev1.ObjectReference {
	return corev1.ObjectReference{Kind: "Node", Name: cluster.NodeName}
}

// deviceEvents breaks, heals and pulls the first card, which the "user" pod holds, and waits for the Events.
func (s *scene) deviceEvents() {
	aboutPod := corev1.ObjectReference{Kind: "Pod", Namespace: s.users, Name: "user", UID: s.uid("user")}
	s.step("the device breaks: Events of pod and node")
	s.breakCard(first)
	s.hasEvent(aboutPod, "DeviceUnhealthy", corev1.EventTypeWarning)
	s.hasEvent(aboutNode(), "DeviceUnhealthy", corev1.EventTypeWarning)
	s.step("it heals: Event of the pod")
	s.healCard(first)
	s.hasEvent(aboutPod, "DeviceRecovered", corev1.EventTypeNormal)
	s.step("it is pulled: Events of pod and node")
	s.pullCard(first)
	s.hasEvent(aboutPod, "DeviceRemovedInUse", corev1.EventTypeWarning)
	s.hasEvent(aboutNode(), "DeviceRemovedInUse", corev1.EventTypeWarning)
}

// credentials switches the API server to a certificate from another CA, and to another key for tokens. Without a
// restart, the daemon keeps following the node and writing Events.
func credentials(s *scene) {
	s.plug(first)
	s.step("helm install with events and nodeAnnotation")
	s.install("events=true", "nodeAnnotation=true")
	s.awaitAdvertised(s.resource, 1, 1)
	pid := s.daemonPID()
	old := must(s.account("token"))
	s.step("the CA and the key are added: the pod gets both CAs and another token")
	s.cleanups = append(s.cleanups, func() { s.check(s.UseCredentials(s.ctx, cluster.FirstCredentials)) })
	s.check(s.UseCredentials(s.ctx, cluster.BothCredentials))
	await(s, "certificates in ca.crt, and another token", func() ([]any, error) {
		ca, err := s.account("ca.crt")
		if err != nil {
			return nil, err
		}
		token, err := s.account("token")
		return []any{strings.Count(ca, "BEGIN CERTIFICATE"), token != old}, err
	}, []any{2, true})
	s.step("the API server has the new certificate, and accepts no old token")
	s.check(s.UseCredentials(s.ctx, cluster.NextCredentials))
	s.step("the node is annotated: the mode changes")
	s.must("kubectl", "annotate", "--overwrite", "node", cluster.NodeName, modeAnnotation+"=af")
	s.awaitAdvertised(afResource, 1, 1)
	s.step("the card breaks: Event of the node")
	s.breakCard(first)
	s.hasEvent(aboutNode(), "DeviceUnhealthy", corev1.EventTypeWarning)
	s.step("the daemon is the same process, and has logged api.recovered")
	same(s, "process", s.daemonPID(), pid)
	s.logged("api.recovered", nil)
}

// account returns the content of one of the daemon's service account files. The file may be missing for a moment while
// the kubelet replaces the directory.
func (s *scene) account(file string) (string, error) {
	dir := fmt.Sprintf("/proc/%d/root/var/run/secrets/kubernetes.io/serviceaccount/", s.daemonPID())
	text, err := os.ReadFile(dir + file)
	return string(text), err
}

// hasEvent waits until the daemon has written an Event about an object. It compares the fields that kubectl describe
// uses to find Events, which include pods' UIDs. The message must contain all of the words.
func (s *scene) hasEvent(about corev1.ObjectReference, reason, kind string, words ...string) {
	await(s, "event "+reason+" of "+about.Name, func() (string, error) {
		list, err := s.Client.CoreV1().Events("").List(s.ctx, metav1.ListOptions{
			FieldSelector: "reason=" + reason + ",involvedObject.name=" + about.Name,
		})
		if err != nil {
			return "", err
		}
		for _, event := range list.Items {
			ref := event.InvolvedObject
			if ref.Kind == about.Kind && ref.Namespace == about.Namespace && (about.UID == "" || ref.UID == about.UID) &&
				event.Source.Component == "accelerator-device-plugin" &&
				!slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(event.Message, w) }) {
				return event.Type, nil
			}
		}
		return "", nil
	}, kind)
}
