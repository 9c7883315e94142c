package plugins

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/operator/api/v1"
)

// Reasons for the Available condition, in addition to the reasons for Accepted.
const (
	reasonReady       = "Ready"
	reasonNoNodes     = "NoNodes"
	reasonRollingOut  = "RollingOut"
	reasonPodsWaiting = "PodsWaiting"
)

// publish writes p's status if it has changed, and records which conditions have changed. refused says why p's objects
// aren't applied, or is nil if they are.
func (r *reconciler) publish(ctx context.Context, before, p *v1.FpgaDevicePlugin, reason string, refused error) error {
	daemonSet, err := r.daemonSet(ctx, p)
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(r.renderer.settings.Namespace), client.MatchingLabels{labelInstance: p.Name}); err != nil {
		return err
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })

	s := &p.Status
	s.ControlledDaemonSet, s.DesiredNumberScheduled, s.NumberReady = nil, 0, 0
	if daemonSet != nil {
		s.ControlledDaemonSet = &corev1.ObjectReference{
			APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet", Namespace: daemonSet.Namespace, Name: daemonSet.Name, UID: daemonSet.UID,
		}
		s.DesiredNumberScheduled, s.NumberReady = daemonSet.Status.DesiredNumberScheduled, daemonSet.Status.NumberReady
	}
	s.NodeNames = nodeNames(pods.Items)
	if s.Devices, s.UnhealthyDevices, err = r.devices(ctx, p, s.NodeNames); err != nil {
		return err
	}
	set := func(exists bool, c metav1.Condition) {
		if !exists {
			meta.RemoveStatusCondition(&s.Conditions, c.Type)
			return
		}
		c.ObservedGeneration, c.Message = p.Generation, short(c.Message)
		meta.SetStatusCondition(&s.Conditions, c)
	}
	accepted := metav1.Condition{Type: v1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: reason, Message: "all objects of the plugin are applied"}
	if refused != nil {
		accepted.Status, accepted.Message = metav1.ConditionFalse, refused.Error()
	}
	set(true, accepted)
	set(true, available(accepted, daemonSet, pods.Items))
	repository, _, _ := splitImage(p.Spec.Image)
	set(isIntels(repository), metav1.Condition{Type: v1.ConditionImageReplaced, Status: metav1.ConditionTrue, Reason: "IntelsImage",
		Message: p.Spec.Image + " is Intel's plugin, and is not used: the image is the operator's default, unless spec.values.image names another"})
	set(p.Spec.InitImage != "", metav1.Condition{Type: v1.ConditionInitImageUnneeded, Status: metav1.ConditionTrue, Reason: "OneImage",
		Message: "spec.initImage has no effect: the image of the plugin also has the programs for the nodes"})
	if equality.Semantic.DeepEqual(before.Status, p.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("status of %s %s: %w", v1.KindFpgaDevicePlugin, p.Name, err))
	}
	for _, c := range s.Conditions {
		r.record(p, meta.FindStatusCondition(before.Status.Conditions, c.Type), c)
	}
	return nil
}

// record logs a change to a condition and creates a Kubernetes Event for it. While p isn't accepted, record ignores the
// Available condition, which then only repeats the reason for Accepted.
func (r *reconciler) record(p *v1.FpgaDevicePlugin, was *metav1.Condition, c metav1.Condition) {
	applied := c.Type == v1.ConditionAccepted && was != nil && was.ObservedGeneration != c.ObservedGeneration
	repeats := c.Type == v1.ConditionAvailable && meta.IsStatusConditionFalse(p.Status.Conditions, v1.ConditionAccepted)
	if was != nil && was.Status == c.Status && was.Reason == c.Reason && !applied || repeats {
		return
	}
	object, reason := logevent.Object(v1.KindFpgaDevicePlugin+"/"+p.Name), logevent.Reason(c.Type+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
	kind := corev1.EventTypeNormal
	if c.Status == metav1.ConditionTrue || c.Reason == reasonRollingOut {
		r.log.Info("plugins published", logevent.PluginsPublished, object, reason)
	} else {
		r.log.Warn("plugins published", logevent.PluginsPublished, object, reason)
		kind = corev1.EventTypeWarning
	}
	r.recorder.Eventf(p, nil, kind, c.Reason, c.Type, "%s", c.Message)
}

// available returns the Available condition. The pods must be sorted.
func available(accepted metav1.Condition, d *appsv1.DaemonSet, pods []corev1.Pod) metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1.ConditionAvailable, Status: status, Reason: reason, Message: message}
	}
	switch {
	case accepted.Status != metav1.ConditionTrue:
		return is(metav1.ConditionFalse, accepted.Reason, "not accepted: "+accepted.Message)
	case d == nil || d.Status.ObservedGeneration != d.Generation:
		return is(metav1.ConditionFalse, reasonRollingOut, "the DaemonSet controller has not observed the current spec")
	case d.Status.DesiredNumberScheduled == 0:
		return is(metav1.ConditionTrue, reasonNoNodes, "no node matches")
	}
	s := d.Status
	numbers := fmt.Sprintf("%d of %d nodes have a ready plugin", s.NumberReady, s.DesiredNumberScheduled)
	if s.UpdatedNumberScheduled == s.DesiredNumberScheduled && s.NumberAvailable == s.DesiredNumberScheduled {
		return is(metav1.ConditionTrue, reasonReady, numbers)
	}
	for i := range pods {
		if problem := waiting(&pods[i]); problem != "" {
			return is(metav1.ConditionFalse, reasonPodsWaiting, numbers+"; "+problem)
		}
	}
	numbers += "; " + strconv.Itoa(int(s.UpdatedNumberScheduled)) + " have a pod of the current spec"
	if s.CurrentNumberScheduled < s.DesiredNumberScheduled {
		numbers += "; nodes without a pod: see the events of the DaemonSet"
	}
	return is(metav1.ConditionFalse, reasonRollingOut, numbers)
}

// waiting returns the reason why a pod isn't starting, or "" if there is none.
func waiting(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return fmt.Sprintf("pod %s on %s: %s: %s", pod.Name, pod.Spec.NodeName, w.Reason, w.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s: %s: %s", pod.Name, c.Reason, c.Message)
		}
	}
	return ""
}

// nodeNames returns the names of the nodes on which pods are running, in sorted order.
func nodeNames(pods []corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
			names = append(names, pod.Spec.NodeName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// devices returns how many of p's devices are on the nodes, and how many of those are unhealthy. A node's capacity
// counts all devices, while its allocatable resources count only healthy ones.
func (r *reconciler) devices(ctx context.Context, p *v1.FpgaDevicePlugin, nodes []string) (all, unhealthy int64, err error) {
	values, err := r.renderer.values(p)
	if err != nil {
		return p.Status.Devices, p.Status.UnhealthyDevices, nil // install reports the error
	}
	offers, err := r.renderer.offers(values)
	if err != nil {
		return p.Status.Devices, p.Status.UnhealthyDevices, nil
	}
	for _, name := range nodes {
		var node corev1.Node
		if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &node); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return 0, 0, err
		}
		for resource, quantity := range node.Status.Capacity {
			if offers(string(resource)) {
				healthy := node.Status.Allocatable[resource]
				all += quantity.Value()
				unhealthy += quantity.Value() - healthy.Value()
			}
		}
	}
	return all, unhealthy, nil
}
