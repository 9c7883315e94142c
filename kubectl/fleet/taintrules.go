package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// driver is the DRA driver's name.
const driver = "accelerator.b-com.com"

// TaintRules returns the cluster's DeviceTaintRules, which keep pods away from devices. It returns nil if the API
// server doesn't support DeviceTaintRules.
func (f *Fleet) TaintRules(ctx context.Context) ([]resourceapi.DeviceTaintRule, error) {
	for _, version := range []string{"v1", "v1beta2"} { // same fields; Kubernetes 1.36 serves only v1beta2
		text, err := f.Object(ctx, "/apis/resource.k8s.io/"+version+"/devicetaintrules", nil)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("DeviceTaintRules: %w", err)
		}
		var list resourceapi.DeviceTaintRuleList
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("DeviceTaintRules: %w", err)
		}
		return list.Items, nil
	}
	return nil, nil
}

// Tainted reports whether a rule taints the device with the given ID on a node, so that new pods don't get it.
func Tainted(rule *resourceapi.DeviceTaintRule, node, id string) bool {
	if strings.Count(id, ":") == 1 {
		id = "0000:" + id
	}
	name := "pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(id)
	selects := func(want *string, value string) bool { return want == nil || *want == value }
	s := rule.Spec.DeviceSelector
	if s == nil {
		s = &resourceapi.DeviceTaintSelector{}
	}
	return rule.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNone &&
		selects(s.Driver, driver) && selects(s.Pool, node) && selects(s.Device, name)
}
