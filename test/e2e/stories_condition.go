package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

const cardsHealthy = "accelerator.b-com.com/CardsHealthy"

// installWithCondition installs the chart with the node condition enabled. The condition is removed when the story
// ends.
func (s *scene) installWithCondition(values ...string) {
	s.cleanups = append(s.cleanups, s.removeCondition)
	s.install(append(values, "nodeCondition.enabled=true")...)
}

// removeCondition removes the condition as described in docs/node-condition.md.
func (s *scene) removeCondition() {
	s.uninstall() // otherwise, the daemon would write the condition again
	s.must("kubectl", "patch", "node/"+cluster.NodeName, "--subresource", "status",
		"-p", `{"status":{"conditions":[{"type":"`+cardsHealthy+`","$patch":"delete"}]}}`)
	same(s, "condition after its removal", must(s.condition()), "")
}

// condition returns the node's condition as STATUS REASON: MESSAGE, or "" if the node doesn't have one.
func (s *scene) condition() (string, error) {
	node, err := s.Client.CoreV1().Nodes().Get(s.ctx, cluster.NodeName, metav1.GetOptions{})
	for _, c := range node.Status.Conditions {
		if c.Type == cardsHealthy {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), err
		}
	}
	return "", err
}

// judged waits until the check command, run in the daemon's pod, prints this message and exits with this code, and then
// until the node has the condition with the same message.
func (s *scene) judged(status, reason, message string, code int) {
	pod := s.daemon().Name
	await(s, "check", func() (string, error) {
		out, err := s.Run(s.ctx, "kubectl", "--namespace", namespace, "exec", pod, "--", "accelerator-device-plugin", "check")
		got := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			got, err = exit.ExitCode(), nil
		}
		return fmt.Sprintf("%d %s", got, strings.TrimSpace(out)), err
	}, fmt.Sprintf("%d %s", code, message))
	took := await(s, "condition", s.condition, status+" "+reason+": "+message)
	s.step("  condition %s %s, %.1f s after check", status, reason, took.Seconds())
}

// condition shows that a broken card changes the node's condition to False, and that cordoning or healing the card
// changes it back. The condition survives a restart of the daemon.
func condition(s *scene, values ...string) {
	s.step("helm install without a card")
	s.installWithCondition(values...)
	s.judged("Unknown", "NoCards", "this node has no cards", 2)
	s.step("two cards are plugged")
	s.plug(first, second)
	s.judged("True", "NoFault", "2 cards without a fault", 0)
	s.step("a card breaks")
	s.breakCard(first)
	s.judged("False", "CardFault", "1 of 2 cards: "+firstID+" port-ap6", 1)
	began := must(s.Client.CoreV1().Nodes().Get(s.ctx, cluster.NodeName, metav1.GetOptions{}))
	s.step("another daemon: the condition is False since the same time, and was never another")
	var others []string
	s.during(s.restartDaemon, func(ctx context.Context) {
		every(ctx, func() bool {
			if now, err := s.condition(); err == nil && !strings.HasPrefix(now, "False ") {
				others = append(others, now)
			}
			return false
		})
	})
	same(s, "other conditions during the restart", others, nil)
	s.judged("False", "CardFault", "1 of 2 cards: "+firstID+" port-ap6", 1)
	same(s, "last transition", transition(must(s.Client.CoreV1().Nodes().Get(s.ctx, cluster.NodeName, metav1.GetOptions{}))), transition(began))
	s.step("the card is cordoned")
	s.exec("cordon", firstID, "--why", "e2e", "--by", "e2e")
	s.judged("True", "NoFault", "2 cards without a fault", 0)
	s.exec("uncordon", firstID, "--by", "e2e")
	s.judged("False", "CardFault", "1 of 2 cards: "+firstID+" port-ap6", 1)
	s.step("the card heals")
	s.healCard(first)
	s.judged("True", "NoFault", "2 cards without a fault", 0)
	s.logged("condition.changed", line{"old": "False", "new": "True"})
}

// every calls f every 100 ms until f returns true or ctx is done.
func every(ctx context.Context, f func() bool) {
	for ctx.Err() == nil && !f() {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// transition returns the condition's last transition time.
func transition(node *corev1.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == cardsHealthy {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// conditionPolicy shows that a daemon's token allows the daemon to change only its own condition, and only on its own
// node.
func conditionPolicy(s *scene) {
	s.plug(first)
	s.step("helm install on this node only, and a second Node object")
	const other = "other"
	must(s.Client.CoreV1().Nodes().Create(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: other}}, metav1.CreateOptions{}))
	s.cleanups = append(s.cleanups, func() { s.check(s.Client.CoreV1().Nodes().Delete(s.ctx, other, metav1.DeleteOptions{})) })
	s.installWithCondition(`nodeSelector.kubernetes\.io/hostname=` + cluster.NodeName)
	await(s, "condition", s.condition, "True NoFault: 1 card without a fault")
	pod := s.daemon()
	own := s.clientOf(&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID})
	patchAs := func(kind types.PatchType, client kubernetes.Interface, node, body string) error {
		_, err := client.CoreV1().Nodes().Patch(s.ctx, node, kind, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		return err
	}
	patch := func(client kubernetes.Interface, node, body string) error {
		return patchAs(types.StrategicMergePatchType, client, node, body)
	}
	conditions := func(kind string) string {
		return `{"status":{"conditions":[{"type":"` + kind + `","status":"False","reason":"E2E","message":"m"}]}}`
	}
	s.step("with the daemon's token: its own condition is accepted")
	s.check(patch(own, cluster.NodeName, conditions(cardsHealthy)))
	s.step("refused: another node")
	var err error
	await(s, "another node refused", func() (bool, error) { // policies don't take effect immediately
		err = patch(own, other, conditions(cardsHealthy))
		return err != nil, nil
	}, true)
	s.refused("another node", err, "ValidatingAdmissionPolicy", "want the pod's own node")
	s.step("  %v", err)
	s.step("refused: another condition, a condition twice or too long, a capacity, a label, and a token of no node")
	s.refused("condition Ready", patch(own, cluster.NodeName, conditions("Ready")), "ValidatingAdmissionPolicy", "another condition")
	s.refused("condition of a cloud", patch(own, cluster.NodeName, conditions("AcceleratedHardwareReady")), "ValidatingAdmissionPolicy", "another condition")
	const twice = `[{"op":"copy","from":"/status/conditions/0","path":"/status/conditions/-"}]`
	s.check(patchAs(types.JSONPatchType, s.Client, cluster.NodeName, twice)) // the API server itself allows duplicates
	s.refused("first condition twice", patchAs(types.JSONPatchType, own, cluster.NodeName, twice), "ValidatingAdmissionPolicy", "another condition")
	s.refused("own condition twice", patchAs(types.JSONPatchType, own, cluster.NodeName, `[{"op":"add","path":"/status/conditions/-","value":`+
		`{"type":"`+cardsHealthy+`","status":"True"}}]`), "ValidatingAdmissionPolicy", "twice or too long")
	s.refused("long message", patch(own, cluster.NodeName, strings.Replace(conditions(cardsHealthy), `"m"`, `"`+strings.Repeat("m", 2000)+`"`, 1)),
		"ValidatingAdmissionPolicy", "twice or too long")
	s.refused("capacity", patch(own, cluster.NodeName, `{"status":{"capacity":{"example.com/x":"7"}}}`), "ValidatingAdmissionPolicy", "status: found a change")
	s.refused("label", patch(own, cluster.NodeName, `{"metadata":{"labels":{"example.com/x":"y"}}}`), "ValidatingAdmissionPolicy", "metadata: found a change")
	s.refused("token without a node", patch(s.clientOf(nil), cluster.NodeName, conditions(cardsHealthy)), "ValidatingAdmissionPolicy", "want the pod's own node")
	s.step("the account has no more rights than it needs")
	s.hasRights(daemonAccount, map[string]bool{
		"patch nodes": false, "get nodes": false, "list nodes": false,
		"get pods": false, "create events": false, "get secrets": false,
	})
}

// conditionTaint keeps pods off the node with a taint until the node's condition has the status that the rule in
// deploy/examples requires. A stand-in for the Node Readiness Controller then removes the taint, but only once, as in
// bootstrap-only mode.
func conditionTaint(s *scene) {
	rule := string(must(os.ReadFile(filepath.Join(s.tree, "deploy", "examples", "node-readiness-rule.yaml"))))
	found := regexp.MustCompile(`- \{type: (\S+), requiredStatus: "(\w+)"\}\n  taint: \{key: (\S+), value: (\w+), effect: (\w+)\}`).FindStringSubmatch(rule)
	if found == nil || found[1] != cardsHealthy {
		s.failf("deploy/examples/node-readiness-rule.yaml: found no condition %s with a taint", cardsHealthy)
	}
	required, taint := found[2], found[3]
	s.step("the node is tainted, as by --register-with-taints")
	s.must("kubectl", "taint", "node", cluster.NodeName, fmt.Sprintf("%s=%s:%s", taint, found[4], found[5]))
	tainted := func() (bool, error) {
		node, err := s.Client.CoreV1().Nodes().Get(s.ctx, cluster.NodeName, metav1.GetOptions{})
		for _, t := range node.Spec.Taints {
			if t.Key == taint {
				return true, err
			}
		}
		return false, err
	}
	s.cleanups = append(s.cleanups, func() {
		if must(tainted()) {
			s.must("kubectl", "taint", "node", cluster.NodeName, taint+"-")
		}
	})
	s.during(func() {
		s.step("helm install without a card: a pod stays pending")
		s.installWithCondition()
		s.user("user")
		s.notScheduled("user", "untolerated taint")
		await(s, "condition", s.condition, "Unknown NoCards: this node has no cards")
		s.throughout(3*time.Second, func() { same(s, "tainted", must(tainted()), true) })
		s.step("a card is plugged: it is advertised, the taint goes, and the pod runs")
		s.plug(first)
		await(s, "taint", tainted, false)
		s.step("  advertised %.1f s later", s.awaitAdvertised(s.resource, 1, 1).Seconds())
		s.hasReport("user", reportOf(firstID, "dfl-port.0"))
	}, func(ctx context.Context) {
		every(ctx, func() bool {
			now, err := s.condition()
			if err != nil || !strings.HasPrefix(now, required+" ") {
				return false
			}
			_, err = s.Run(ctx, "kubectl", "taint", "node", cluster.NodeName, taint+"-")
			return err == nil
		})
	})
}
