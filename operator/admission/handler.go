package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/mapping"
	"b-com.com/accelerator-device-plugin/operator/metrics"
)

// listTimeout bounds the time that a request waits for mappings, from the cache and from the API
// server. It is shorter than the webhook's timeout, so that the API server receives the reason.
const listTimeout = 3 * time.Second

// liveLimit is the number of requests that may read from the API server at the same time. Each pod
// with an unknown name causes such a read.
const liveLimit = 4

// maxWarnings bounds the warnings for the creator of a pod. The API server sends at most 4096 characters.
const maxWarnings = 5

// Handler answers the API server's requests for new pods. The package
// sigs.k8s.io/controller-runtime/pkg/webhook/admission bounds the size of a request to 7 MiB.
type Handler struct {
	cache, live client.Reader
	reading     chan struct{} // has an element for each request that reads live
	domain      string
	metrics     *metrics.Metrics
	log         *zap.Logger
}

// NewHandler returns a handler that gives pods resources in the domain. It reads mappings from a
// cache. The cache may lack a mapping that was applied together with the pod: if a name is missing,
// the handler reads once from live, which reads from the API server.
func NewHandler(cache, live client.Reader, domain string, m *metrics.Metrics, log *zap.Logger) *Handler {
	return &Handler{cache, live, make(chan struct{}, liveLimit), domain, m, log}
}

var pods = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}

// Handle implements [admission.Handler].
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	begin := time.Now()
	resp := h.handle(ctx, req)
	result := metrics.Failed
	switch {
	case len(resp.Patches) > 0:
		result = metrics.Mapped
	case resp.Allowed:
		result = metrics.Unchanged
	case resp.Result.Code == http.StatusForbidden:
		result = metrics.Denied
	}
	h.metrics.Request(result, time.Since(begin))
	return resp
}

// handle answers a request.
func (h *Handler) handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Resource != pods || req.SubResource != "" || req.Operation != admissionv1.Create || req.Namespace == "" {
		return h.failed(http.StatusBadRequest, "", fmt.Errorf("request: found %.20s of %.60q %.60q in namespace %.63q, want CREATE of pods in a namespace",
			req.Operation, req.Resource.String(), req.SubResource, req.Namespace))
	}
	pod, err := ParsePod(req.Object.Raw)
	if errors.Is(err, errObjects) {
		return h.denied("", err) // also with failurePolicy Ignore
	}
	if err != nil {
		return h.failed(http.StatusBadRequest, "", fmt.Errorf("request: found an object that cannot be decoded, want a pod: %w", err))
	}
	if !requests(pod, h.domain) {
		return admission.Allowed("")
	}
	// The API server generates the names of most pods after admission.
	name := pod.Metadata.Name
	if name == "" {
		name = pod.Metadata.GenerateName + "*"
	}
	name = fmt.Sprintf("Pod/%.63s/%.253s", req.Namespace, name) // not validated yet

	// A server that stops cancels its requests, and then waits for their answers.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	table, err := h.table(ctx, h.cache, req.Namespace)
	if err != nil {
		return h.failed(http.StatusInternalServerError, name, err)
	}
	after, err := Mutate(pod, table)
	if errors.Is(err, mapping.ErrUnknown) {
		if table, err = h.liveTable(ctx, req.Namespace); err != nil {
			return h.failed(http.StatusInternalServerError, name, err)
		}
		after, err = Mutate(pod, table)
	}
	if err != nil {
		return h.denied(name, err)
	}
	ops, dropped := patch(pod, after)
	if len(ops) == 0 {
		return admission.Allowed("")
	}
	h.log.Info("pod mapped", logevent.AdmissionMapped, logevent.Object(name))
	return admission.Patched("", ops...).WithWarnings(warnings(dropped)...)
}

func (h *Handler) denied(object string, err error) admission.Response {
	h.log.Warn("pod denied", logevent.AdmissionDenied, logevent.Object(object), logevent.Reason(err.Error()))
	return admission.Denied(err.Error())
}

func (h *Handler) failed(code int32, object string, err error) admission.Response {
	// The error may quote the request.
	if len(err.Error()) > 1000 {
		err = errors.New(err.Error()[:1000])
	}
	h.log.Error("admission failed", logevent.AdmissionFailed, logevent.Object(object), logevent.Err(err))
	return admission.Errored(code, err)
}

// table reads the mappings of a namespace.
func (h *Handler) table(ctx context.Context, reader client.Reader, namespace string) (*mapping.Table, error) {
	var functions v2.AcceleratorFunctionList
	var regions v2.FpgaRegionList
	for _, list := range []client.ObjectList{&functions, &regions} {
		// The objects may belong to the cache. NewTable only reads them.
		if err := reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("mappings of namespace %s: %w", namespace, err)
		}
	}
	return mapping.NewTable(h.domain, functions.Items, regions.Items), nil
}

// liveTable reads the mappings of a namespace from the API server, when fewer than liveLimit other
// requests read.
func (h *Handler) liveTable(ctx context.Context, namespace string) (*mapping.Table, error) {
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
		return h.table(ctx, h.live, namespace)
	case <-ctx.Done():
		return nil, fmt.Errorf("mappings of namespace %s: %d other requests are reading from the API server: %w", namespace, liveLimit, ctx.Err())
	}
}

// requests reports whether a pod requests resources of the domain.
func requests(pod *Pod, domain string) bool {
	for _, list := range pod.lists() {
		for i := range list.containers {
			r := &list.containers[i].Resources
			for _, in := range []corev1.ResourceList{r.Limits, r.Requests} {
				for name := range in {
					if inDomain(name, domain) {
						return true
					}
				}
			}
		}
	}
	return false
}

// warnings returns the warnings for the creator of a pod whose variables were dropped.
func warnings(dropped []string) []string {
	var all []string
	for i, name := range dropped {
		if i == maxWarnings {
			return append(all, fmt.Sprintf("and %d more variables were dropped", len(dropped)-i))
		}
		all = append(all, name+" was dropped: the names in resources choose the functions")
	}
	return all
}
