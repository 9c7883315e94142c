package controllers

import (
	"context"
	"fmt"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/mapping"
)

// Reasons for the Ready condition. The other reasons come from [mapping.Problem].
const (
	ReasonMapped        = "Mapped"
	ReasonAmbiguousName = "AmbiguousName"
)

// Functions writes the status of AcceleratorFunctions.
type Functions struct {
	Client client.Client
	Domain string // the resources' domain
	Log    *zap.Logger
}

// Regions writes the status of FpgaRegions.
type Regions struct {
	Client client.Client
	Domain string // the resources' domain
	Log    *zap.Logger
}

// SetupWithManager registers Reconcile with the manager for changes to functions and also to regions, because a region
// may have the same name as a function.
func (r Functions) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("functions").For(&v2.AcceleratorFunction{}).
		Watches(&v2.FpgaRegion{}, &handler.EnqueueRequestForObject{}).Complete(r)
}

// SetupWithManager registers Reconcile with the manager for changes to regions and also to functions, because a
// function may have the same name as a region.
func (r Regions) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("regions").For(&v2.FpgaRegion{}).
		Watches(&v2.AcceleratorFunction{}, &handler.EnqueueRequestForObject{}).Complete(r)
}

// Reconcile implements [reconcile.Reconciler].
func (r Functions) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var f v2.AcceleratorFunction
	if err := r.Client.Get(ctx, req.NamespacedName, &f); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := f.DeepCopy()
	return reconcile.Result{}, publish(ctx, r.Client, r.Log, mapping.OfFunction(r.Domain, &f), before, &f, &f.Status, &v2.FpgaRegion{})
}

// Reconcile implements [reconcile.Reconciler].
func (r Regions) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var region v2.FpgaRegion
	if err := r.Client.Get(ctx, req.NamespacedName, &region); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := region.DeepCopy()
	return reconcile.Result{}, publish(ctx, r.Client, r.Log, mapping.OfRegion(r.Domain, &region), before, &region, &region.Status, &v2.AcceleratorFunction{})
}

// publish writes an object's status if it has changed. status points to the status in object, before is a copy of
// object, and other is an empty object of the other kind.
func publish(ctx context.Context, c client.Client, log *zap.Logger, m mapping.Mapping, before, object client.Object, status *v2.MappingStatus, other client.Object) error {
	ready := metav1.Condition{Type: v2.ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonMapped,
		Message: "pods of this namespace can request the name", ObservedGeneration: object.GetGeneration()}
	err := c.Get(ctx, client.ObjectKeyFromObject(object), other)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return err
	case m.Problem != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, m.Problem.Reason, m.Problem.Message
	case err == nil:
		ready.Status, ready.Reason = metav1.ConditionFalse, ReasonAmbiguousName
		ready.Message = fmt.Sprintf("name: found both an %s and an %s of this name in this namespace, want one", mapping.KindFunction, mapping.KindRegion)
	}
	old := *status.DeepCopy()
	status.Resource = m.Resource
	if ready.Status != metav1.ConditionTrue {
		status.Resource = ""
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(old, *status) {
		return nil
	}
	if err := c.Status().Patch(ctx, object, client.MergeFrom(before)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // deleted meanwhile
		}
		return fmt.Errorf("status of %s %s/%s: %w", m.Kind, object.GetNamespace(), object.GetName(), err)
	}
	name := m.Kind + "/" + object.GetNamespace() + "/" + object.GetName()
	if ready.Status == metav1.ConditionTrue {
		log.Info("mapping published", logevent.MappingPublished, logevent.Object(name), logevent.Reason(ready.Message), logevent.Resource(status.Resource))
	} else {
		log.Warn("mapping published", logevent.MappingPublished, logevent.Object(name), logevent.Reason(ready.Message))
	}
	return nil
}
