package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/controllers"
	"b-com.com/accelerator-device-plugin/operator/mapping"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	domain = "fpga.intel.com"
	afu    = "d8424dc4a4a3c413f89e433683f9040b"
	hash   = "40007c0623210742000ebc58df6f5343e668b03a"
	iface  = "ce48969398f05f33946d560708be108a"
	af     = "fpga.intel.com/af-ce4.d84.zkiWk5jwXzOUbVYHCL4QithCTcSko8QT-J5DNoP5BAs"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 3}
}

// cluster is a fake API server that counts writes, and both reconcilers.
type cluster struct {
	client.Client
	writes int
	fail   error
	logs   *observer.ObservedLogs
	both   []reconcile.Reconciler
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	must.Succeed(t, v2.AddToScheme(scheme))
	c := &cluster{}
	core, logs := observer.New(zap.DebugLevel)
	c.logs = logs
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v2.AcceleratorFunction{}, &v2.FpgaRegion{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if c.writes++; c.fail != nil {
				return c.fail
			}
			return w.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
	c.both = []reconcile.Reconciler{
		controllers.Functions{Client: c.Client, Domain: domain, Log: zap.New(core)},
		controllers.Regions{Client: c.Client, Domain: domain, Log: zap.New(core)},
	}
	return c
}

// reconcile runs both reconcilers, as a change of either kind does.
func (c *cluster) reconcile(name string) error {
	var errs []error
	for _, r := range c.both {
		_, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "lab", Name: name}})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// check compares the status: a resource, or the reason why there is none.
func check(t *testing.T, status v2.MappingStatus, resource, reason string) {
	t.Helper()
	ready := meta.FindStatusCondition(status.Conditions, v2.ConditionReady)
	if ready == nil || len(status.Conditions) != 1 {
		t.Fatalf("conditions %v, want Ready", status.Conditions)
	}
	if status.Resource != resource || ready.Reason != reason || (ready.Status == metav1.ConditionTrue) != (resource != "") || ready.Message == "" || ready.ObservedGeneration != 3 {
		t.Errorf("resource %q, Ready %+v, want %q, %s", status.Resource, ready, resource, reason)
	}
}

func TestStatus(t *testing.T) {
	for _, tc := range []struct {
		name                            string
		iface, afu, mode                string // mode "" is an FpgaRegion
		resource, reason, level, logged string
	}{
		{"af", iface, afu, "af", af, "Mapped", "info", ""},
		{"region", iface, hash, "region", "fpga.intel.com/region-" + iface, "Mapped", "info", ""},
		{"hash in mode af", iface, hash, "af", "", mapping.InvalidAFUID, "warn", "(40 characters)"},
		{"mode of Intel's schema", iface, afu, "afx", "", mapping.InvalidMode, "warn", `mode: found "afx"`},
		{"region to program", iface, "", "", "fpga.intel.com/region-" + iface, "Mapped", "info", ""},
		{"short id", iface[:8], "", "", "", mapping.InvalidInterfaceID, "warn", "(8 characters)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var object client.Object
			var status *v2.MappingStatus
			if tc.mode == "" {
				r := &v2.FpgaRegion{ObjectMeta: named("lab", "n"), Spec: v2.FpgaRegionSpec{InterfaceID: tc.iface}}
				object, status = r, &r.Status
			} else {
				f := &v2.AcceleratorFunction{ObjectMeta: named("lab", "n"), Spec: v2.AcceleratorFunctionSpec{InterfaceID: tc.iface, AfuID: tc.afu, Mode: tc.mode}}
				object, status = f, &f.Status
			}
			c := newCluster(t, object)
			for range 2 {
				must.Succeed(t, c.reconcile("n"))
			}
			must.Succeed(t, c.Get(context.Background(), client.ObjectKeyFromObject(object), object))
			check(t, *status, tc.resource, tc.reason)
			compare.Equal(t, "writes, although the second time nothing changed", 1, c.writes)
			if c.logs.Len() != 1 {
				t.Fatalf("log %v, want one line", c.logs.All())
			}
			line := c.logs.All()[0]
			if m := line.ContextMap(); line.Level.String() != tc.level || m["event"] != "mapping.published" || !strings.Contains(m["reason"].(string), tc.logged) {
				t.Errorf("log %v %v, want level %s, event mapping.published, and %q in reason", line.Level, m, tc.level, tc.logged)
			}
		})
	}
}

// A name that two objects have does not stand for a resource until one of the objects is deleted.
func TestAmbiguousName(t *testing.T) {
	f := &v2.AcceleratorFunction{ObjectMeta: named("lab", "n"), Spec: v2.AcceleratorFunctionSpec{InterfaceID: iface, AfuID: afu, Mode: "af"}}
	r := &v2.FpgaRegion{ObjectMeta: named("lab", "n"), Spec: v2.FpgaRegionSpec{InterfaceID: iface}}
	elsewhere := &v2.FpgaRegion{ObjectMeta: named("other", "n"), Spec: v2.FpgaRegionSpec{InterfaceID: iface}}
	c := newCluster(t, f, r, elsewhere)
	read := func() {
		t.Helper()
		must.Succeed(t, errors.Join(c.reconcile("n"), c.Get(context.Background(), client.ObjectKeyFromObject(f), f),
			client.IgnoreNotFound(c.Get(context.Background(), client.ObjectKeyFromObject(r), r))))
	}
	read()
	check(t, f.Status, "", controllers.ReasonAmbiguousName)
	check(t, r.Status, "", controllers.ReasonAmbiguousName)
	must.Succeed(t, c.Delete(context.Background(), r))
	read()
	check(t, f.Status, af, controllers.ReasonMapped)
}

func TestGone(t *testing.T) {
	c := newCluster(t)
	if err := c.reconcile("n"); err != nil || c.writes != 0 {
		t.Errorf("error %v, %d writes, want none", err, c.writes)
	}
}

// An error of the API server is returned, so that controller-runtime tries again.
func TestRefused(t *testing.T) {
	c := newCluster(t, &v2.FpgaRegion{ObjectMeta: named("lab", "n"), Spec: v2.FpgaRegionSpec{InterfaceID: iface}})
	c.fail = errors.New("full")
	compare.Equal(t, "error", "status of FpgaRegion lab/n: full", fmt.Sprint(c.reconcile("n")))
	c.fail = nil
	if err := c.reconcile("n"); err != nil || c.writes != 2 || c.logs.Len() != 1 {
		t.Errorf("error %v, %d writes, log %v, want none, 2, one line", err, c.writes, c.logs.All())
	}
}
