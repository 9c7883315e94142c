package fleet_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestTainted(t *testing.T) {
	for _, test := range []struct {
		name     string
		selector *resourceapi.DeviceTaintSelector
		effect   resourceapi.DeviceTaintEffect
		want     bool
	}{
		{"card of the node", &resourceapi.DeviceTaintSelector{Driver: new("accelerator.b-com.com"), Pool: new("worker-1"), Device: new("pci-0000-3b-00-0-p1")}, "NoSchedule", true},
		{"all cards of the node", &resourceapi.DeviceTaintSelector{Pool: new("worker-1")}, "NoExecute", true},
		{"no selector: all devices of the cluster", nil, "NoSchedule", true},
		{"another driver", &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com"), Pool: new("worker-1")}, "NoSchedule", false},
		{"another node", &resourceapi.DeviceTaintSelector{Pool: new("worker-2"), Device: new("pci-0000-3b-00-0-p1")}, "NoSchedule", false},
		{"another port", &resourceapi.DeviceTaintSelector{Device: new("pci-0000-3b-00-0")}, "NoSchedule", false},
		{"no effect", &resourceapi.DeviceTaintSelector{Pool: new("worker-1")}, "None", false},
	} {
		rule := resourceapi.DeviceTaintRule{Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: test.selector, Taint: resourceapi.DeviceTaint{Effect: test.effect}}}
		compare.Equal(t, test.name+": Tainted", test.want, fleet.Tainted(&rule, "worker-1", "3b:00.0-p1"))
	}
	far := resourceapi.DeviceTaintRule{Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Device: new("pci-10000-3b-00-0")}}}
	if !fleet.Tainted(&far, "worker-1", "10000:3b:00.0") {
		t.Error("a rule for a device of another PCI domain does not taint it")
	}
}
