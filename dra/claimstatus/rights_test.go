package claimstatus_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/dra/claimstatus"
	draslices "b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/dra/test/apiserver"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// chartWith contains the chart's objects with claimStatus.
const chartWith = "../../tools/chart/testdata/plugin/dra-everything.golden"

// At a real API server, with the permissions of the chart, the driver can write the devices of claims of its own node.
// It can change nothing else in any claim.
func TestRights(t *testing.T) {
	config := apiserver.Start(t)
	admin := kubernetes.NewForConfigOrDie(config)
	account := applyRole(t, admin)
	as := func(node string) kubernetes.Interface {
		own := rest.CopyConfig(config)
		own.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
		if node != "" { // as the API server puts it into the token of a pod
			own.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		return kubernetes.NewForConfigOrDie(own)
	}

	// Two claims are allocated to devices of this driver and of another one, on two nodes.
	api := admin.ResourceV1().ResourceClaims("default")
	allocated := map[string]*resourceapi.ResourceClaim{}
	for _, name := range []string{"node1", "node2"} {
		claim, err := api.Create(t.Context(), &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
				{Name: "card", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: draname.Driver}},
				{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "nic.example.com"}},
			}}},
		}, metav1.CreateOptions{})
		must.Succeed(t, err)
		claim.Finalizers = []string{"resource.kubernetes.io/delete-protection"}
		if claim, err = api.Update(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		claim.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "card", Driver: draname.Driver, Pool: name, Device: "pci-0000-3b-00-0"},
				{Request: "nic", Driver: "nic.example.com", Pool: name, Device: "nic0"},
			}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
			}}},
		}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "uid"}}
		claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "nic.example.com", Pool: name, Device: "nic0"}}
		if allocated[name], err = api.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	// The driver of node1 writes the claim of its node.
	r := &rig{t: t, prepared: latest.New([]claims.Prepared{
		{UID: string(allocated["node1"].UID), Namespace: "default", Name: "node1", Devices: []string{"3b:00.0"}},
	}), snapshots: latest.New(inventory.Snapshot{})}
	r.set(port("3b:00.0", inventory.Unhealthy, "port-ap6"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := claimstatus.New(claimstatus.Config{Node: "node1", Client: as("node1"), Claims: r, Devices: r, Attributes: draslices.Options{}.Attributes, Log: zap.NewNop()})
	go func() { ended <- w.Run(ctx) }()
	var claim *resourceapi.ResourceClaim
	var err error
	deadline := time.After(time.Minute)
	for claim == nil || len(claim.Status.Devices) < 2 {
		if claim, err = api.Get(t.Context(), "node1", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatalf("found the status %+v, want the device within a minute", claim.Status.Devices)
		}
	}
	cancel()
	compare.NoError(t, "Run", <-ended)
	var found []string
	for _, d := range claim.Status.Devices {
		for _, c := range d.Conditions {
			found = append(found, fmt.Sprintf("%s %s=%s %s", d.Device, c.Type, c.Status, c.Message))
		}
	}
	if len(found) != 1 || found[0] != "pci-0000-3b-00-0 Ready=False port-ap6" || claim.Status.Allocation == nil || len(claim.Status.ReservedFor) != 1 {
		t.Errorf("found %q in %+v, want one condition and the rest unchanged", found, claim.Status)
	}

	for _, tc := range []struct {
		name, claim, node, patch string
		want                     string // text of the refusal; "": accepted
	}{
		{"own device", "node1", "node1", `{"status":{"devices":[{"driver":"accelerator.b-com.com","pool":"node1","device":"pci-0000-3b-00-0"},{"driver":"nic.example.com","pool":"node1","device":"nic0"}]}}`, ""},
		{"another node", "node2", "node1", `{"status":{"devices":[{"driver":"accelerator.b-com.com","pool":"node2","device":"pci-0000-3b-00-0"},{"driver":"nic.example.com","pool":"node2","device":"nic0"}]}}`, "arbitrary-node:patch"},
		{"a token without a node", "node1", "", `{"status":{"devices":[{"driver":"nic.example.com","pool":"node1","device":"nic0"}]}}`, "arbitrary-node:patch"},
		{"device of another driver", "node1", "node1", `{"status":{"devices":[{"driver":"accelerator.b-com.com","pool":"node1","device":"pci-0000-3b-00-0"}]}}`, "nic.example.com"},
		{"device that is not allocated", "node1", "node1", `{"status":{"devices":[{"driver":"accelerator.b-com.com","pool":"node2","device":"pci-0000-3b-00-0"},{"driver":"nic.example.com","pool":"node1","device":"nic0"}]}}`, "must be an allocated device"},
		{"allocation", "node1", "node1", `{"status":{"allocation":null}}`, "resourceclaims/binding"},
		{"allocation of another node", "node2", "node1", `{"status":{"allocation":null}}`, "resourceclaims/binding"},
		{"pods", "node1", "node1", `{"status":{"reservedFor":null}}`, "resourceclaims/binding"},
	} {
		_, err := as(tc.node).ResourceV1().ResourceClaims("default").Patch(t.Context(), tc.claim, types.MergePatchType, []byte(tc.patch), metav1.PatchOptions{DryRun: []string{"All"}}, "status")
		compare.Outcome(t, tc.name, tc.want, err)
	}
	// The writer sends the uid of the claim, so it cannot write to a claim that has replaced it.
	_, err = as("node1").ResourceV1().ResourceClaims("default").ApplyStatus(t.Context(), apply.ResourceClaim("node1", "default").WithUID("another").
		WithStatus(apply.ResourceClaimStatus()), metav1.ApplyOptions{FieldManager: draname.Driver, Force: true})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a claim with this name and another uid: error %v, want it invalid", err)
	}
	// A write of the status changes nothing else of the object, and the object itself cannot be written.
	patch := []byte(`{"metadata":{"labels":{"a":"b"},"finalizers":null},"spec":{"devices":null}}`)
	after, err := as("node1").ResourceV1().ResourceClaims("default").Patch(t.Context(), "node2", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil && (len(after.Labels) > 0 || len(after.Finalizers) != 1 || len(after.Spec.Devices.Requests) != 2) {
		t.Errorf("found %+v, want labels, finalizers and requests unchanged", after)
	}
	if _, err := as("node1").ResourceV1().ResourceClaims("default").Patch(t.Context(), "node1", types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the claim itself: error %v, want it forbidden", err)
	}
}

// applyRole creates the role of the chart and its binding, and returns the account.
func applyRole(t *testing.T, admin kubernetes.Interface) (account string) {
	t.Helper()
	text, err := os.ReadFile(chartWith)
	must.Succeed(t, err)
	for _, object := range strings.Split(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		var binding rbacv1.ClusterRoleBinding
		switch {
		case strings.Contains(object, "\nkind: ClusterRole\n") && yaml.Unmarshal([]byte(object), &role) == nil:
			_, err = admin.RbacV1().ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{})
		case strings.Contains(object, "\nkind: ClusterRoleBinding\n") && yaml.Unmarshal([]byte(object), &binding) == nil:
			account = "system:serviceaccount:" + binding.Subjects[0].Namespace + ":" + binding.Subjects[0].Name
			_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &binding, metav1.CreateOptions{})
		}
		must.Succeed(t, err)
	}
	if account == "" {
		t.Fatalf("%s: found no ClusterRoleBinding", chartWith)
	}
	return account
}
