package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	netv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"b-com.com/accelerator-device-plugin/operator/api/v1"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// operatorChart renders the operator's own chart.
func operatorChart(t *testing.T) map[string]string {
	t.Helper()
	c := must.Value(loader.LoadDir("../../deploy/helm/accelerator-operator"))(t)
	values := map[string]any{"devicePlugins": map[string]any{"enabled": true}}
	top := must.Value(util.ToRenderValues(c, values, common.ReleaseOptions{Name: "op", Namespace: settings.Namespace}, nil))(t)
	files := must.Value(engine.Render(c, top))(t)
	return files
}

// decode calls f with each object of a file.
func decode(t *testing.T, file string, f func(client.Object)) {
	t.Helper()
	for _, text := range strings.Split(file, "\n---\n") {
		raw := must.Value(yamlutil.ToJSON([]byte(text)))(t)
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		f(o.(client.Object))
	}
}

// holds reports whether rules have a verb for a resource.
func holds(rules []rbacv1.PolicyRule, group, resource, verb string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb) && len(r.ResourceNames) == 0
	})
}

// The operator has each rule that the chart of the plugin can grant. Otherwise the API server would
// refuse to let it create the role.
func TestRole(t *testing.T) {
	var held, granted []rbacv1.PolicyRule
	decode(t, operatorChart(t)["accelerator-operator/templates/deviceplugins.yaml"], func(o client.Object) {
		if role, ok := o.(*rbacv1.ClusterRole); ok {
			held = append(held, role.Rules...)
		}
	})
	raw := must.Value(yamlutil.ToJSON([]byte(everything)))(t)
	p := object(t, "mode: region")
	p.Spec.Values = &runtime.RawExtension{Raw: raw}
	objects := must.Value(newRenderer(t).Render(context.Background(), p))(t)
	for _, o := range objects {
		if o.GetKind() == "Role" {
			t.Error("the chart has a Role: the test must compare its rules too")
		}
		if o.GetKind() == "ClusterRole" {
			var role rbacv1.ClusterRole
			must.Succeed(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
			granted = append(granted, role.Rules...)
		}
	}
	if len(granted) == 0 {
		t.Fatal("the chart grants no rules, want some to compare")
	}
	for _, r := range granted {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					if !holds(held, group, resource, verb) {
						t.Errorf("the operator does not hold %s %s of group %q", verb, resource, group)
					}
				}
			}
		}
	}
}

// apiServer is a real API server. The controller runs with the rights that the operator's chart
// grants. There are no other controllers: no pods are created, and no objects are garbage-collected.
type apiServer struct {
	client.Client
	t        *testing.T
	ctx      context.Context
	config   *rest.Config
	operator client.Client // with the rights of the controller
	requests atomic.Int64  // of the controller
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// newAPIServer skips the test if ACCELERATOR_E2E_BIN, a directory with etcd and kube-apiserver, is
// not set.
func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	bin := os.Getenv("ACCELERATOR_E2E_BIN")
	if bin == "" {
		t.Skip("NOT RUN: ACCELERATOR_E2E_BIN: found none, want a directory with etcd and kube-apiserver; make test-operator sets it if make e2e has built them")
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: bin, CRDDirectoryPaths: []string{"../../deploy/helm/accelerator-operator/files/crds"}, ErrorIfCRDPathMissing: true,
	}
	config := must.Value(env.Start())(t)
	t.Cleanup(func() {
		compare.NoError(t, "Stop", env.Stop())
	})
	s := runtime.NewScheme()
	must.Succeed(t, scheme.AddToScheme(s))
	must.Succeed(t, v1.AddToScheme(s))
	admin, err := client.New(config, client.Options{Scheme: s})
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	c := &apiServer{Client: admin, t: t, ctx: ctx, config: config}
	c.must(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: settings.Namespace}}))
	files := operatorChart(t)
	for _, name := range []string{"serviceaccount", "rbac", "deviceplugins"} {
		decode(t, files["accelerator-operator/templates/"+name+".yaml"], func(o client.Object) { c.must(c.Create(ctx, o)) })
	}

	operator := rest.CopyConfig(config)
	operator.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + settings.Namespace + ":op-accelerator-operator"}
	operator.QPS = -1
	c.operator, err = client.New(operator, client.Options{Scheme: s})
	c.must(err)
	operator.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			c.requests.Add(1)
			return next.RoundTrip(r)
		})
	})
	mgr := must.Value(ctrl.NewManager(operator, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}}))(t)
	must.Succeed(t, Add(mgr, settings, zap.NewNop()))
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		compare.NoError(t, "Run", <-ended)
	})
	return c
}

func (c *apiServer) must(err error) {
	c.t.Helper()
	must.Succeed(c.t, err)
}

// eventually waits until f returns "".
func (c *apiServer) eventually(f func() string) {
	c.t.Helper()
	deadline, problem := time.After(20*time.Second), ""
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if problem = f(); problem == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			c.t.Fatal(problem)
		}
	}
}

// condition waits until an object has a condition.
func (c *apiServer) condition(name, kind string, status metav1.ConditionStatus, reason, message string) {
	c.t.Helper()
	c.eventually(func() string {
		var p v1.FpgaDevicePlugin
		c.must(c.Get(c.ctx, client.ObjectKey{Name: name}, &p))
		got := meta.FindStatusCondition(p.Status.Conditions, kind)
		if got == nil || got.Status != status || got.Reason != reason || !strings.Contains(got.Message, message) || got.ObservedGeneration != p.Generation {
			return cmp.Diff(metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: p.Generation}, got)
		}
		return ""
	})
}

// exists waits until an object of the plugin exists, or does not.
func (c *apiServer) exists(o client.Object, name string, want bool) {
	c.t.Helper()
	c.eventually(func() string {
		err := c.Get(c.ctx, client.ObjectKey{Namespace: settings.Namespace, Name: name}, o)
		if client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		if got := err == nil; got != want {
			return fmt.Sprintf("%s exists: %t, want %t", name, got, want)
		}
		return ""
	})
}

// edit changes an object of the API.
func (c *apiServer) edit(name string, f func(*v1.FpgaDevicePlugin)) {
	c.t.Helper()
	c.eventually(func() string {
		var p v1.FpgaDevicePlugin
		c.must(c.Get(c.ctx, client.ObjectKey{Name: name}, &p))
		f(&p)
		if err := c.Update(c.ctx, &p); err != nil {
			if !apierrors.IsConflict(err) {
				c.t.Fatal(err)
			}
			return err.Error()
		}
		return ""
	})
}

func values(t *testing.T, v map[string]any) *runtime.RawExtension {
	t.Helper()
	raw := must.Value(json.Marshal(v))(t)
	return &runtime.RawExtension{Raw: raw}
}

const suffix = "-accelerator-device-plugin"

// foreignRoles checks that the operator can neither change nor delete roles that belong to others.
func (c *apiServer) foreignRoles() {
	c.t.Helper()
	rule := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}} // which the operator may grant
	foreign := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Rules: rule}
	c.must(c.Create(c.ctx, foreign))
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "foreign"}}
	c.must(c.Create(c.ctx, binding))
	refused := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "metadata.ownerReferences: found no FpgaDevicePlugin")
	}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	c.eventually(func() string { // the API server uses a new policy after some time
		if err := c.operator.Patch(c.ctx, foreign.DeepCopy(), label); !refused(err) {
			return fmt.Sprintf("patch of a role: error %v, want it refused", err)
		}
		return ""
	})
	owner := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"deviceplugin.intel.com/v1","kind":"FpgaDevicePlugin","name":"a","uid":"u"}]}}`))
	for name, err := range map[string]error{
		"delete a role":          c.operator.Delete(c.ctx, foreign.DeepCopy()),
		"delete a binding":       c.operator.Delete(c.ctx, binding.DeepCopy()),
		"make a role one's own":  c.operator.Patch(c.ctx, foreign.DeepCopy(), owner),
		"create a role":          c.operator.Create(c.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Rules: rule}),
		"delete the system role": c.operator.Delete(c.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}}),
	} {
		if !refused(err) {
			c.t.Errorf("%s: error %v, want it refused", name, err)
		}
	}
	// Whoever steals the operator's token can name any owner.
	owned := metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: v1.KindFpgaDevicePlugin, Name: "a", UID: "u"}}}
	labeled := owned
	labeled.Name, labeled.Labels = "labeled", map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}
	writer := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}}
	to := func(s rbacv1.Subject) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: owned, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "owned"}, Subjects: []rbacv1.Subject{s}}
	}
	c.must(c.operator.Create(c.ctx, &rbacv1.ClusterRole{ObjectMeta: owned, Rules: writer}))
	for want, o := range map[string]client.Object{
		"subjects: found another one than the device plugins' service accounts in " + settings.Namespace: to(rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:unauthenticated"}),
		"subjects: found another one":      to(rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "a-accelerator-device-plugin"}),
		"subjects: found another one than": to(rbacv1.Subject{Kind: "ServiceAccount", Namespace: settings.Namespace, Name: "default"}),
		"metadata.labels: found a new one": &rbacv1.ClusterRole{ObjectMeta: labeled, Rules: writer},
	} {
		if err := c.operator.Create(c.ctx, o, client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			c.t.Errorf("%T: error %v, want %q", o, err, want)
		}
	}
	c.must(c.operator.Create(c.ctx, to(rbacv1.Subject{Kind: "ServiceAccount", Namespace: settings.Namespace, Name: "a-accelerator-device-plugin"})))
	// Labels that an administrator adds do not keep the operator from repairing an object.
	c.must(c.Patch(c.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "owned"}}, label))
	c.must(c.operator.Patch(c.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "owned"}}, client.RawPatch(types.MergePatchType, []byte(`{"rules":[]}`))))
	for _, o := range []client.Object{&rbacv1.ClusterRoleBinding{ObjectMeta: owned}, &rbacv1.ClusterRole{ObjectMeta: owned}} {
		c.must(c.operator.Delete(c.ctx, o))
	}
}

func TestAPIServer(t *testing.T) {
	c := newAPIServer(t)
	c.foreignRoles()
	c.nodeCondition()
	create := func(name, spec string) {
		p := object(t, spec)
		p.Name, p.UID = name, ""
		c.must(c.Create(c.ctx, p))
	}
	daemonSet := &appsv1.DaemonSet{}

	// Intel's sample.
	create("a", "{image: 'intel/intel-fpga-plugin:0.34.0', initImage: 'intel/intel-fpga-initcontainer:0.34.0', mode: region, logLevel: 4, nodeSelector: {fpga: a}}")
	c.condition("a", v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")
	c.condition("a", v1.ConditionImageReplaced, metav1.ConditionTrue, "IntelsImage", "intel/intel-fpga-plugin:0.34.0")
	c.condition("a", v1.ConditionInitImageUnneeded, metav1.ConditionTrue, "OneImage", "")
	c.condition("a", v1.ConditionAvailable, metav1.ConditionFalse, "RollingOut", "")
	c.exists(daemonSet, "a"+suffix, true)

	// A plugin with bitstreams has a second DaemonSet, and its account may write Events. The status is the plugin's,
	// even if the name of the second DaemonSet sorts first, which happens after the name was cut.
	long := strings.Repeat("b", 40)
	create(long, "{nodeSelector: {fpga: long}, values: {events: true, bitstreams: {references: [registry.example.com/fpga/nlb:1.0]}}}")
	c.condition(long, v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")
	c.exists(&appsv1.DaemonSet{}, (long + suffix)[:52]+"-bitstreams", true)
	c.eventually(func() string {
		var p v1.FpgaDevicePlugin
		c.must(c.Get(c.ctx, client.ObjectKey{Name: long}, &p))
		if d := p.Status.ControlledDaemonSet; d == nil || d.Name != (long + suffix)[:63] {
			return fmt.Sprintf("status: found DaemonSet %v, want that of the plugin", d)
		}
		return ""
	})
	c.must(c.Delete(c.ctx, &v1.FpgaDevicePlugin{ObjectMeta: metav1.ObjectMeta{Name: long}}))

	// The status follows the DaemonSet, its pods and their nodes.
	c.must(c.Create(c.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	node := &corev1.Node{}
	c.must(c.Get(c.ctx, client.ObjectKey{Name: "n1"}, node))
	node.Status.Capacity = corev1.ResourceList{"fpga.intel.com/region-x": resource.MustParse("3"), "cpu": resource.MustParse("7")}
	node.Status.Allocatable = corev1.ResourceList{"fpga.intel.com/region-x": resource.MustParse("2"), "cpu": resource.MustParse("6")}
	c.must(c.Status().Update(c.ctx, node))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: settings.Namespace, Name: "p", Labels: daemonSet.Spec.Template.Labels},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	c.must(c.Create(c.ctx, pod))
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	c.must(c.Status().Update(c.ctx, pod))
	set := func(ready int32) {
		c.exists(daemonSet, "a"+suffix, true)
		daemonSet.Status = appsv1.DaemonSetStatus{ObservedGeneration: daemonSet.Generation, DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberReady: ready, NumberAvailable: ready}
		c.must(c.Status().Update(c.ctx, daemonSet))
	}
	set(0)
	c.condition("a", v1.ConditionAvailable, metav1.ConditionFalse, "PodsWaiting", "0 of 1 nodes have a ready plugin; pod p on n1: ImagePullBackOff: no such image")
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodRunning, nil
	c.must(c.Status().Update(c.ctx, pod))
	set(1)
	c.condition("a", v1.ConditionAvailable, metav1.ConditionTrue, "Ready", "1 of 1 nodes")
	c.eventually(func() string {
		var p v1.FpgaDevicePlugin
		c.must(c.Get(c.ctx, client.ObjectKey{Name: "a"}, &p))
		p.Status.Conditions = nil
		return cmp.Diff(v1.FpgaDevicePluginStatus{
			ControlledDaemonSet:    &corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: settings.Namespace, Name: "a" + suffix, UID: daemonSet.UID},
			DesiredNumberScheduled: 1, NumberReady: 1, NodeNames: []string{"n1"}, Devices: 3, UnhealthyDevices: 1,
		}, p.Status)
	})
	var events eventsv1.EventList
	c.eventually(func() string {
		c.must(c.List(c.ctx, &events, client.InNamespace("default")))
		for _, e := range events.Items {
			if e.Reason == "PodsWaiting" && e.Type == corev1.EventTypeWarning && e.Regarding.Name == "a" {
				return ""
			}
		}
		return "no Kubernetes Event PodsWaiting"
	})
	for _, e := range events.Items {
		if e.Reason == "RollingOut" && e.Type != corev1.EventTypeNormal {
			t.Errorf("Kubernetes Event %s %s: %s, want it to be Normal", e.Type, e.Reason, e.Note)
		}
	}

	// Changes by others are reverted.
	c.exists(daemonSet, "a"+suffix, true)
	const restarted = "kubectl.kubernetes.io/restartedAt"
	daemonSet.Spec.Template.Annotations[restarted] = "now"
	daemonSet.Spec.Template.Spec.Containers[0].Image = "evil"
	delete(daemonSet.Labels, labelManagedBy)
	c.must(c.Update(c.ctx, daemonSet))
	c.eventually(func() string {
		c.must(c.Get(c.ctx, client.ObjectKeyFromObject(daemonSet), daemonSet))
		return cmp.Diff("registry.example.com/accelerator-device-plugin:v1.2.3 accelerator-operator",
			daemonSet.Spec.Template.Spec.Containers[0].Image+" "+daemonSet.Labels[labelManagedBy])
	})
	compare.Equal(t, "after kubectl rollout restart: "+restarted, "now", daemonSet.Spec.Template.Annotations[restarted])
	configMap := &corev1.ConfigMap{}
	c.exists(configMap, "a"+suffix, true)
	c.must(c.Delete(c.ctx, configMap))
	c.exists(configMap, "a"+suffix, true)

	// An object that is no longer needed is deleted.
	role := &rbacv1.ClusterRole{}
	bound := func(name string, want bool) {
		t.Helper()
		c.eventually(func() string {
			if err := c.Get(c.ctx, client.ObjectKey{Name: name}, role); (err == nil) != want {
				return fmt.Sprintf("%s exists: %t, want %t", name, err == nil, want)
			}
			return ""
		})
	}
	c.edit("a", func(p *v1.FpgaDevicePlugin) {
		p.Spec.Values = values(t, map[string]any{"events": true, "nodeAnnotation": true})
	})
	bound(settings.Namespace+"-a"+suffix, true)
	c.condition("a", v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")
	c.edit("a", func(p *v1.FpgaDevicePlugin) { p.Spec.Values = nil })
	bound(settings.Namespace+"-a"+suffix, false)

	// So is an object whose labels come from the values.
	c.edit("a", func(p *v1.FpgaDevicePlugin) {
		p.Spec.Values = values(t, map[string]any{"dashboard": map[string]any{"enabled": true, "labels": map[string]string{labelInstance: "x"}}})
	})
	c.exists(configMap, "a"+suffix+"-dashboard", true)
	c.edit("a", func(p *v1.FpgaDevicePlugin) { p.Spec.Values = nil })
	c.exists(configMap, "a"+suffix+"-dashboard", false)

	// With invalid values the objects stay.
	c.edit("a", func(p *v1.FpgaDevicePlugin) {
		p.Spec.Values = values(t, map[string]any{"minReadySeconds": "soon"})
	})
	c.condition("a", v1.ConditionAccepted, metav1.ConditionFalse, "InvalidValues", "values.minReadySeconds: got string, want integer")
	c.condition("a", v1.ConditionAvailable, metav1.ConditionFalse, "InvalidValues", "")
	c.exists(daemonSet, "a"+suffix, true)
	c.edit("a", func(p *v1.FpgaDevicePlugin) { p.Spec.Values = nil })
	c.condition("a", v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")

	// A kind whose CRD does not exist in the cluster.
	c.edit("a", func(p *v1.FpgaDevicePlugin) {
		p.Spec.Values = values(t, map[string]any{"podMonitor": map[string]any{"enabled": true}})
	})
	c.condition("a", v1.ConditionAccepted, metav1.ConditionFalse, "ApplyFailed", "PodMonitor")
	c.edit("a", func(p *v1.FpgaDevicePlugin) { p.Spec.Values = nil })
	c.condition("a", v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")

	// Two objects for the same nodes were created in the same second: the one whose name sorts first wins.
	create("b", "nodeSelector: {fpga: a}")
	c.condition("b", v1.ConditionAccepted, metav1.ConditionFalse, "SameNodes", "node selector of a")
	c.edit("a", func(p *v1.FpgaDevicePlugin) {
		p.Spec.NodeSelector["fpga"] = "b"
		p.Spec.Values = values(t, map[string]any{"colour": "red"})
	})
	c.condition("a", v1.ConditionAccepted, metav1.ConditionFalse, "InvalidValues", "")
	c.edit("b", func(p *v1.FpgaDevicePlugin) { p.Spec.LogLevel = 1 })
	c.condition("b", v1.ConditionAccepted, metav1.ConditionFalse, "SameNodes", "node selector of a") // a's plugins still run there
	c.edit("a", func(p *v1.FpgaDevicePlugin) { p.Spec.Values = nil })
	c.condition("b", v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")
	c.exists(daemonSet, "b"+suffix, true)
	c.edit("a", func(p *v1.FpgaDevicePlugin) { p.Spec.NodeSelector = nil })
	c.condition("b", v1.ConditionAccepted, metav1.ConditionFalse, "SameNodes", "node selector of a")
	c.exists(daemonSet, "b"+suffix, false)
	c.edit("a", func(p *v1.FpgaDevicePlugin) { p.Finalizers = []string{"example.com/test"} })
	c.must(c.Delete(c.ctx, &v1.FpgaDevicePlugin{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
	c.edit("b", func(p *v1.FpgaDevicePlugin) { p.Spec.LogLevel = 2 })
	c.condition("b", v1.ConditionAccepted, metav1.ConditionFalse, "SameNodes", "node selector of a") // a still exists
	c.edit("a", func(p *v1.FpgaDevicePlugin) { p.Finalizers = nil })
	c.condition("b", v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")
	c.exists(daemonSet, "b"+suffix, true)
	for _, owner := range daemonSet.OwnerReferences {
		if owner.Kind != v1.KindFpgaDevicePlugin || owner.Name != "b" || owner.Controller == nil || !*owner.Controller {
			t.Errorf("owner %+v", owner)
		}
	}

	// Objects of other owners are not changed, for example objects of a Helm release, or of the operator.
	c.must(c.Create(c.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: settings.Namespace, Name: "c" + suffix, Labels: map[string]string{"x": "y"}}}))
	create("c", "nodeSelector: {fpga: c}")
	c.condition("c", v1.ConditionAccepted, metav1.ConditionFalse, "ForeignObject", "ServiceAccount c"+suffix+": found with another owner")
	account := &corev1.ServiceAccount{}
	c.exists(account, "c"+suffix, true)
	if len(account.OwnerReferences) > 0 || account.Labels[labelManagedBy] != "" {
		t.Errorf("%+v was changed", account)
	}
	c.must(c.Delete(c.ctx, account))
	c.condition("c", v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")

	// Objects that do not change are not written. Otherwise each reconciliation would cause the next
	// one, because the API server does not store some of these empty lists and maps.
	c.edit("b", func(p *v1.FpgaDevicePlugin) {
		p.Spec.Values = values(t, map[string]any{
			"scrapers":          []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{}}}},
			"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "Exists", "values": []any{}}}}},
			"resources":         map[string]any{"limits": map[string]any{}},
		})
	})
	c.condition("b", v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")
	generations := func() [2]int64 {
		policy := &netv1.NetworkPolicy{}
		c.exists(policy, "b"+suffix, true)
		c.exists(daemonSet, "b"+suffix, true)
		return [2]int64{policy.Generation, daemonSet.Generation}
	}
	first := generations()
	for logLevel := range 2 { // both are info
		c.edit("b", func(p *v1.FpgaDevicePlugin) { p.Spec.LogLevel = logLevel })
		c.condition("b", v1.ConditionAccepted, metav1.ConditionTrue, "Applied", "")
	}
	compare.Values(t, "generations of objects that did not change", first, generations())

	// Devices that flap on many nodes do not each cause a reconciliation.
	for i := range 20 {
		c.must(c.Create(c.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "flaps" + strconv.Itoa(i)}}))
	}
	before, start, changes := c.requests.Load(), time.Now(), 0
	for ; time.Since(start) < 4*time.Second; changes++ {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "flaps" + strconv.Itoa(changes%20)}}
		patch := fmt.Sprintf(`{"status":{"capacity":{"fpga.intel.com/af-x":"%d"}}}`, changes)
		c.must(c.Status().Patch(c.ctx, node, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	took := time.Since(start)
	requests := c.requests.Load() - before
	t.Logf("%d changes of nodes in %v: %d requests", changes, took, requests)
	if most := int64((took.Seconds() + 1) * 2 * 12); requests > most { // two objects, a dozen each
		t.Errorf("%d requests in %v, want at most %d", requests, took, most)
	}
}
