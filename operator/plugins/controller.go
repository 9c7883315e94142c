package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"b-com.com/accelerator-device-plugin/operator/api/v1"
	"b-com.com/accelerator-device-plugin/operator/metrics"
)

// Add adds the controller to a manager. Only the leader runs it.
func Add(mgr ctrl.Manager, s Settings, log *zap.Logger) error {
	renderer, err := NewRenderer(s)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	// The controller has its own cache, which keeps only the objects and fields that it needs.
	ours := labels.SelectorFromSet(labels.Set{labelManagedBy: manager})
	namespace := map[string]cache.Config{s.Namespace: {}}
	byObject := map[client.Object]cache.ByObject{
		&corev1.Node{}: {Transform: trimNode},
		&corev1.Pod{}:  {Transform: trimPod, Namespaces: namespace, Label: labels.SelectorFromSet(labels.Set{labelName: chartName})},
	}
	var owned []*metav1.PartialObjectMetadata
	for _, kind := range kinds {
		mapping, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			continue // a Prometheus Operator kind; if the CRD is installed later, it isn't watched until a restart
		} else if err != nil {
			return err
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		options := cache.ByObject{Label: ours}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			options.Namespaces = namespace
		}
		byObject[object] = options
		owned = append(owned, object)
	}
	c, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme, o.HTTPClient = scheme, mgr.GetHTTPClient()
		o.Cache = cache.Options{ByObject: byObject, DefaultTransform: cache.TransformStripManagedFields()}
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(c); err != nil {
		return err
	}
	metrics.Plugins(ctrlmetrics.Registry, c.GetCache())
	r := &reconciler{
		client: c.GetClient(), live: c.GetAPIReader(), renderer: renderer, owned: owned,
		recorder: c.GetEventRecorder(manager), log: log,
	}
	daemonSets := &metav1.PartialObjectMetadata{}
	daemonSets.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	b := ctrl.NewControllerManagedBy(mgr).Named("plugins").
		// A change to one FpgaDevicePlugin reconciles all of them, because several may match the same nodes.
		WatchesRawSource(source.Kind(c.GetCache(), client.Object(&v1.FpgaDevicePlugin{}), all, predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind(c.GetCache(), client.Object(daemonSets), delayed{all}, predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind(c.GetCache(), client.Object(&corev1.Node{}), delayed{all}, predicate.Funcs{UpdateFunc: devicesChanged})).
		WatchesRawSource(source.Kind(c.GetCache(), client.Object(&corev1.Pod{}), delayed{handler.EnqueueRequestsFromMapFunc(instance)}))
	for _, object := range owned {
		b = b.WatchesRawSource(source.Kind(c.GetCache(), client.Object(object),
			delayed{handler.EnqueueRequestForOwner(scheme, c.GetRESTMapper(), &v1.FpgaDevicePlugin{}, handler.OnlyControllerOwner())}))
	}
	return b.Complete(r)
}

// kinds lists the kinds of objects in the chart.
var kinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"},
}

// trimNode strips a node down to its name and resources.
func trimNode(object any) (any, error) {
	if n, ok := object.(*corev1.Node); ok {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion},
			Status:     corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable},
		}, nil
	}
	return object, nil
}

// trimPod strips a pod down to its labels, its node, and the parts of its status that explain why it isn't running.
func trimPod(object any) (any, error) {
	if p, ok := object.(*corev1.Pod); ok {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels, DeletionTimestamp: p.DeletionTimestamp,
			},
			Spec: corev1.PodSpec{NodeName: p.Spec.NodeName},
			Status: corev1.PodStatus{
				Phase: p.Status.Phase, Conditions: p.Status.Conditions,
				InitContainerStatuses: p.Status.InitContainerStatuses, ContainerStatuses: p.Status.ContainerStatuses,
			},
		}, nil
	}
	return object, nil
}

// devicesChanged reports whether a node's resources have changed. Kubelets write their node's status every few minutes
// even if nothing has changed.
func devicesChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// delayed enqueues requests after one second, because a reconciliation sends a dozen requests to the API server,
// whereas on a large cluster, nodes and pods change many times per second.
type delayed struct{ handler.EventHandler }

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

type delayedQueue struct{ queue }

func (q delayedQueue) Add(r reconcile.Request) { q.AddAfter(r, time.Second) }

func (d delayed) Create(ctx context.Context, e event.CreateEvent, q queue) {
	d.EventHandler.Create(ctx, e, delayedQueue{q})
}

func (d delayed) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	d.EventHandler.Update(ctx, e, delayedQueue{q})
}

func (d delayed) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	d.EventHandler.Delete(ctx, e, delayedQueue{q})
}

// instance returns a request for the FpgaDevicePlugin that the pod belongs to.
func instance(_ context.Context, pod client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: pod.GetLabels()[labelInstance]}}}
}

type reconciler struct {
	client   client.Client // reads from the cache
	live     client.Reader
	renderer *Renderer
	owned    []*metav1.PartialObjectMetadata // one per watched kind
	recorder events.EventRecorder
	log      *zap.Logger
}

// all returns a request for each FpgaDevicePlugin.
func (r *reconciler) all(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var list v1.FpgaDevicePluginList
	if err := r.client.List(ctx, &list); err != nil {
		return nil // the cache isn't filled yet; when it is, every FpgaDevicePlugin is enqueued
	}
	for _, p := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: p.Name}})
	}
	return requests
}

// Reconcile implements [reconcile.Reconciler]. It always applies all objects, to undo changes made by others. The API
// server doesn't write an object that is unchanged.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &v1.FpgaDevicePlugin{}
	// Don't read from the cache, which may not contain the latest status yet.
	if err := r.live.Get(ctx, req.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if p.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // the garbage collector will delete its objects
	}
	before := p.DeepCopy()
	reason, refused := r.install(ctx, p)
	err := r.publish(ctx, before, p, reason, refused)
	if reason == reasonForeignObject || reason == reasonApplyFailed {
		err = errors.Join(refused, err) // retry, because the cause may disappear without an event
	}
	return reconcile.Result{}, err
}

// Reasons for the Accepted condition.
const (
	reasonApplied       = "Applied"
	reasonInvalidValues = "InvalidValues" // the previous spec's objects stay
	reasonSameNodes     = "SameNodes"     // all objects are deleted
	reasonForeignObject = "ForeignObject"
	reasonApplyFailed   = "ApplyFailed"
)

// install applies p's objects, and deletes any other objects that p owns. It returns the reason for the Accepted
// condition, and an error if the condition is false.
func (r *reconciler) install(ctx context.Context, p *v1.FpgaDevicePlugin) (string, error) {
	var list v1.FpgaDevicePluginList
	if err := r.client.List(ctx, &list); err != nil {
		return reasonApplyFailed, err
	}
	var sets appsv1.DaemonSetList
	if err := r.live.List(ctx, &sets, client.InNamespace(r.renderer.settings.Namespace), client.MatchingLabels{labelName: chartName}); err != nil {
		return reasonApplyFailed, err
	}
	for _, other := range list.Items { // including any that are being deleted, because their plugins are still running
		if older(&other, p) && overlap(selectors(&other, sets.Items), selectors(p, sets.Items)) {
			// Delete p's objects, because two plugins on the same node would overwrite each other's device lists.
			if err := r.prune(ctx, p, nil); err != nil {
				return reasonApplyFailed, err
			}
			return reasonSameNodes, fmt.Errorf("nodeSelector: found a node selector that can match the same nodes as the node selector of %s, which is older, want a label with different values in both", other.Name)
		}
	}
	objects, err := r.renderer.Render(ctx, p)
	if err != nil {
		return reasonInvalidValues, err
	}
	for _, o := range objects {
		existing := &metav1.PartialObjectMetadata{}
		existing.SetGroupVersionKind(o.GroupVersionKind())
		err := r.live.Get(ctx, client.ObjectKeyFromObject(o), existing)
		if err == nil && !metav1.IsControlledBy(existing, p) {
			return reasonForeignObject, fmt.Errorf("%s %s: found with another owner, want it deleted, or another name of the FpgaDevicePlugin", o.GetKind(), o.GetName())
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return reasonApplyFailed, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	for _, o := range objects {
		if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.ForceOwnership, client.FieldOwner(manager)); err != nil {
			return reasonApplyFailed, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if err := r.prune(ctx, p, objects); err != nil {
		return reasonApplyFailed, err
	}
	return reasonApplied, nil
}

// selectors returns the node selectors in p's spec and in its DaemonSet. The two differ while the spec is rejected.
func selectors(p *v1.FpgaDevicePlugin, sets []appsv1.DaemonSet) []map[string]string {
	all := []map[string]string{nodeSelector(p)}
	for i := range sets {
		if metav1.IsControlledBy(&sets[i], p) {
			all = append(all, sets[i].Spec.Template.Spec.NodeSelector)
		}
	}
	return all
}

// older reports whether a was created before b. If both were created in the same second, the one whose name sorts first
// counts as older.
func older(a, b *v1.FpgaDevicePlugin) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// prune deletes the objects that p owns, except those in keep.
func (r *reconciler) prune(ctx context.Context, p *v1.FpgaDevicePlugin, keep []*unstructured.Unstructured) error {
	for _, kind := range r.owned {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersionKind())
		if err := r.client.List(ctx, list); err != nil {
			return err
		}
		for _, object := range list.Items {
			kept := slices.ContainsFunc(keep, func(o *unstructured.Unstructured) bool {
				return o.GetName() == object.Name && o.GroupVersionKind() == kind.GroupVersionKind()
			})
			if kept || object.DeletionTimestamp != nil || !metav1.IsControlledBy(&object, p) {
				continue
			}
			object.SetGroupVersionKind(kind.GroupVersionKind())
			err := r.client.Delete(ctx, &object, client.Preconditions{UID: &object.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("%s %s: %w", kind.Kind, object.Name, err)
			}
		}
	}
	return nil
}

// daemonSet returns p's DaemonSet for the plugin (not the one for bitstreams), or nil if there is none. It reads from
// the API server, because the cache may still contain the DaemonSet as it was before the last apply, with an outdated
// status that would look current.
func (r *reconciler) daemonSet(ctx context.Context, p *v1.FpgaDevicePlugin) (*appsv1.DaemonSet, error) {
	var list appsv1.DaemonSetList
	if err := r.live.List(ctx, &list, client.InNamespace(r.renderer.settings.Namespace), client.MatchingLabels{labelInstance: p.Name}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if d := &list.Items[i]; d.DeletionTimestamp == nil && metav1.IsControlledBy(d, p) && d.Spec.Template.Labels[labelName] == chartName {
			return d, nil
		}
	}
	return nil, nil
}

// short cuts text to a length that conditions and Kubernetes Events allow.
func short(text string) string {
	const most = 900
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
