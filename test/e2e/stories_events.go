package main

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// What becomes of a device is said to its pod and to its node.
func kubernetesEvents(s *scene) {
	s.plug(first)
	s.step("helm install with events")
	s.install("events=true")
	s.offers(s.resource, 1, 1)
	s.user("user")
	s.sees("user", holder(firstID, "dfl-port.0"))
	pod, err := s.look("user")
	s.check(err)
	aboutPod := corev1.ObjectReference{Kind: "Pod", Namespace: s.users, Name: "user", UID: pod.UID}
	aboutNode := corev1.ObjectReference{Kind: "Node", Name: cluster.NodeName}
	s.step("it breaks: pod and node are told")
	s.check(s.power(first)(false))
	s.told(aboutPod, "DeviceUnhealthy", corev1.EventTypeWarning)
	s.told(aboutNode, "DeviceUnhealthy", corev1.EventTypeWarning)
	s.step("it is well again: told, too")
	s.check(s.power(first)(true))
	s.told(aboutPod, "DeviceRecovered", corev1.EventTypeNormal)
	s.step("it is pulled: told why")
	s.pull(first)
	s.health("user", map[string]string{firstID: "Unhealthy"})
	s.told(aboutPod, "DeviceRemovedInUse", corev1.EventTypeWarning)
	s.told(aboutNode, "DeviceRemovedInUse", corev1.EventTypeWarning)
	s.step("the pod ends: the node is told that the device is free")
	s.end("user")
	s.told(aboutNode, "DeviceReleased", corev1.EventTypeNormal)
	s.step("the account may write events, get pods, and nothing else")
	s.may(daemonAccount, map[string]bool{
		"create events": true, "patch events": true, "get pods": true,
		"list events": false, "list pods": false, "list nodes": false, "get secrets": false, "create pods": false,
	})
}

// The API server gets a certificate of another CA and another key for tokens, while the daemon
// follows the node and writes Events.
func credentials(s *scene) {
	s.plug(first)
	s.step("helm install with events and nodeAnnotation")
	s.install("events=true", "nodeAnnotation=true")
	s.offers(s.resource, 1, 1)
	pid := s.daemonPID()
	old, err := s.account("token")
	s.check(err)
	s.step("the CA and the key are added: the pod is given both CAs and another token")
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
	s.step("annotated: followed")
	_, err = s.Run(s.ctx, "kubectl", "annotate", "--overwrite", "node", cluster.NodeName, modeAnnotation+"=af")
	s.check(err)
	s.offers(afResource, 1, 1)
	s.step("the card breaks: the node is told")
	s.check(s.power(first)(false))
	s.told(corev1.ObjectReference{Kind: "Node", Name: cluster.NodeName}, "DeviceUnhealthy", corev1.EventTypeWarning)
	s.step("by the same process, which has logged that it recovered")
	same(s, "process", s.daemonPID(), pid)
	s.logged("api.recovered", nil)
}

// account returns a file of the service account in the daemon's pod, as its process sees it. It
// may be missing for a moment while the kubelet replaces the directory.
func (s *scene) account(file string) (string, error) {
	dir := fmt.Sprintf("/proc/%d/root/var/run/secrets/kubernetes.io/serviceaccount/", s.daemonPID())
	text, err := os.ReadFile(dir + file)
	return string(text), err
}

// told waits for an Event of the daemon about an object that kubectl describe finds it
// by: pods by their uid.
func (s *scene) told(about corev1.ObjectReference, reason, kind string) {
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
				event.Source.Component == "accelerator-device-plugin" {
				return event.Type, nil
			}
		}
		return "", nil
	}, kind)
}
