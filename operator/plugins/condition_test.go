package plugins

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/operator/api/v1"
)

// writer returns what the daemon in a pod uses to write its condition: a writer with the token of the pod.
func (c *apiServer) writer(account string, pod *corev1.Pod) *apiserver.Writer {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "kubeconfig")
	c.must(os.WriteFile(file, fmt.Appendf(nil, "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"+
		"clusters: [{name: k, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: %s}}]\n",
		c.config.Host, base64.StdEncoding.EncodeToString(c.config.CAData), c.token(account, pod)), 0o600))
	opened, err := apiserver.Open(apiserver.Config{Kubeconfig: file}, zap.NewNop())
	c.must(err)
	w := opened.Writer(c.ctx, "here")
	c.t.Cleanup(w.Close)
	return w
}

// token returns a token of an account, which is bound to a pod if there is one.
func (c *apiServer) token(account string, pod *corev1.Pod) string {
	c.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	token, err := kubernetes.NewForConfigOrDie(c.config).CoreV1().ServiceAccounts(settings.Namespace).CreateToken(c.ctx, account, request, metav1.CreateOptions{})
	c.must(err)
	return token.Status.Token
}

// nodeCondition checks that with the permissions that the operator grants, the daemon can write its condition, but not
// another condition or the condition of another node.
func (c *apiServer) nodeCondition() {
	c.t.Helper()
	t, name := c.t, "condition"
	p := object(t, "{nodeSelector: {fpga: condition}, values: {nodeCondition: {enabled: true}}}")
	p.Name, p.UID = name, ""
	c.must(c.Create(c.ctx, p))
	c.condition(name, v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")
	c.exists(&rbacv1.ClusterRoleBinding{}, settings.Namespace+"-"+name+suffix, true)
	ready := corev1.NodeCondition{Type: "Ready", Status: "True", Reason: "KubeletReady", Message: "m"}
	pods := map[string]*corev1.Pod{}
	for _, at := range []string{"here", "there"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: at, Labels: map[string]string{"a": "b"}}}
		c.must(c.Create(c.ctx, node))
		node.Status.Conditions = []corev1.NodeCondition{ready}
		node.Status.Images = []corev1.ContainerImage{{Names: []string{"i"}, SizeBytes: 1}}
		c.must(c.Status().Update(c.ctx, node))
		pods[at] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: settings.Namespace, Name: at},
			Spec:       corev1.PodSpec{NodeName: at, ServiceAccountName: name + suffix, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		c.must(c.Create(c.ctx, pods[at]))
	}
	here, there := c.writer(name+suffix, pods["here"]), c.writer(name+suffix, pods["there"])
	want := apiserver.Condition{
		Type: nodeCondition, Status: "False", Reason: "CardFault", Message: "1 of 1 card: 3b:00.0 port-ap6",
		Transition: time.Date(2026, 11, 20, 3, 12, 0, 0, time.UTC),
	}
	refused := func(err error, text string) bool {
		return errors.Is(err, apiserver.ErrForbidden) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") && strings.Contains(err.Error(), text)
	}
	c.eventually(func() string { // the API server uses a new role and a new policy after some time
		if err := here.Apply("here", want); err != nil {
			return err.Error()
		}
		if err := there.Apply("here", want); !refused(err, `the token of node "there", want the pod's own node`) {
			return fmt.Sprintf("write to another node: error %v, want it refused", err)
		}
		return ""
	})
	want.Status, want.Message = "True", "1 card without a fault"
	c.must(here.Apply("here", want))
	if got, err := here.Condition("here", nodeCondition); err != nil || got != want {
		t.Errorf("condition %+v, %v, want %+v", got, err, want)
	}
	if got, err := there.Condition("there", nodeCondition); err != nil || got != (apiserver.Condition{Type: nodeCondition}) {
		t.Errorf("condition of a node without one: %+v, %v", got, err)
	}
	another := want
	another.Type = "example.com/Other"
	ours := want
	ours.Type = "Ready"
	_, read := there.Condition("here", nodeCondition)
	for what, test := range map[string]struct {
		err  error
		text string
	}{
		"read another node":                {read, "want the pod's own node"},
		"another condition":                {here.Apply("here", another), "status.conditions: found a change of another condition"},
		"token without a pod":              {c.writer(name+suffix, nil).Apply("here", want), `the token of node ""`},
		"with the account of the operator": {c.writer("op-accelerator-operator", nil).Apply("here", want), `the token of node ""`},
	} {
		if !refused(test.err, test.text) {
			t.Errorf("%s: error %v, want it refused with %q", what, test.err, test.text)
		}
	}
	if err := here.Apply("here", ours); !errors.Is(err, apiserver.ErrExists) { // it belongs to another program
		t.Errorf("condition of the kubelet: error %v, want a conflict", err)
	}
	// If another program writes to this condition, the daemon replaces the value.
	c.must(c.Status().Patch(c.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}, client.RawPatch(types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/status/conditions/1/status","value":"Unknown"},`+
			`{"op":"add","path":"/status/conditions/-","value":{"type":"DiskPressure","status":"False"}}]`))))
	c.must(here.Apply("here", want))
	// If a kubelet found its condition twice, it would update only the first one.
	twice := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"copy","from":"/status/conditions/0","path":"/status/conditions/-"}]`))
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = c.token(name+suffix, pods["here"])
	stolen, err := client.New(config, client.Options{})
	c.must(err)
	for at, writer := range map[string]client.Client{"there": c.Client, "here": stolen} { // the administrator can do it
		err := writer.Status().Patch(c.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: at}}, twice)
		if at == "there" && err != nil || at == "here" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "found a change of another condition")) {
			t.Errorf("a condition twice at %s: %v, want only the policy to refuse it", at, err)
		}
	}
	var node corev1.Node
	c.must(c.Get(c.ctx, client.ObjectKey{Name: "here"}, &node))
	var kinds []string
	for _, condition := range node.Status.Conditions {
		kinds = append(kinds, string(condition.Type)+" "+string(condition.Status))
	}
	if diff := cmp.Diff([]string{"Ready True", nodeCondition + " True", "DiskPressure False"}, kinds); diff != "" || len(node.Status.Images) != 1 || node.Labels["a"] != "b" {
		t.Errorf("node %+v, conditions (-want +got):\n%s", node, diff)
	}
	// The command of docs/node-condition.md.
	c.must(c.Status().Patch(c.ctx, &node, client.RawPatch("application/strategic-merge-patch+json",
		[]byte(`{"status":{"conditions":[{"type":"`+nodeCondition+`","$patch":"delete"}]}}`))))
	if got, err := here.Condition("here", nodeCondition); err != nil || got.Status != "" {
		t.Errorf("condition %+v, %v, want that it is removed", got, err)
	}
	c.must(here.Apply("here", want))
	c.must(c.Delete(c.ctx, p))
}
