package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
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

// maxWarnings limits the number of warnings for a pod's creator, because the API server passes on no more than 4096
// characters.
const maxWarnings = 5

// maxNamespace is the maximum length of a namespace name.
const maxNamespace = 63

// lines is how many times per second a message can be logged. There is a limit because any pod that can reach the
// webhook can cause these messages.
const lines = 10

// Handler answers the API server's requests for new pods. When served by [httpd.ServeBodies], it limits the total
// memory that requests use.
type Handler struct {
	cache, live client.Reader
	limits      limits
	domain      string
	metrics     *metrics.Metrics
	log         *zap.Logger
}

// NewHandler returns a handler that replaces names with resources in this domain. It reads mappings from cache. Because
// the cache may not yet contain a mapping that was applied together with the pod, the handler also looks up missing
// names in live, which queries the API server, unless it has recently done so too often.
func NewHandler(cache, live client.Reader, domain string, m *metrics.Metrics, log *zap.Logger) *Handler {
	few := zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewSamplerWithOptions(c, time.Second, lines, 0) })
	return &Handler{cache, live, newLimits(), domain, m, log.WithOptions(few)}
}

var pods = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}

// Handle implements [admission.Handler].
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	return h.handleFrom(ctx, "", req)
}

// handleFrom answers a request from a client at the given address.
func (h *Handler) handleFrom(ctx context.Context, host string, req admission.Request) admission.Response {
	begin := time.Now()
	resp := h.handle(ctx, host, req)
	h.metrics.Request(result(resp), time.Since(begin))
	return resp
}

// result classifies a response for the metrics.
func result(resp admission.Response) metrics.Result {
	switch {
	case len(resp.Patches) > 0:
		return metrics.Mapped
	case resp.Allowed:
		return metrics.Unchanged
	case resp.Result.Code == http.StatusForbidden:
		return metrics.Denied
	}
	return metrics.Failed
}

func (h *Handler) handle(ctx context.Context, host string, req admission.Request) admission.Response {
	if req.Resource != pods || req.SubResource != "" || req.Operation != admissionv1.Create || req.Namespace == "" || len(req.Namespace) > maxNamespace {
		return h.failed(http.StatusBadRequest, "", fmt.Errorf("request: found %.20s of %.60q %.60q in namespace %.63q, want CREATE of pods in a namespace",
			req.Operation, req.Resource.String(), req.SubResource, req.Namespace))
	}
	decode, within := h.limits.forSize(len(req.Object.Raw))
	// A server that is stopping cancels requests but waits for their answers, so answer canceled requests too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	resp, unknown := h.decide(ctx, decode, host, req, func() (*mapping.Table, error) { return h.table(ctx, h.cache, req.Namespace) })
	if unknown == "" || !h.limits.live.allow(req.Namespace) {
		return resp()
	}
	table, err := h.liveTable(ctx, req.Namespace)
	if err != nil {
		return h.failed(http.StatusInternalServerError, unknown, err)
	}
	// Decode the pod again, because keeping it would have used memory while waiting for the API server.
	resp, _ = h.decide(ctx, decode, host, req, func() (*mapping.Table, error) { return table, nil })
	return resp()
}

// decide waits for its turn and decodes the pod. resp is a function that logs and returns the answer. If the pod
// requests a name that isn't in the table, unknown is the pod's own name, for the log.
func (h *Handler) decide(ctx context.Context, decode *decodeLimit, host string, req admission.Request, table func() (*mapping.Table, error)) (resp func() admission.Response, unknown string) {
	failed := func(code int32, object string, err error) (func() admission.Response, string) {
		return func() admission.Response { return h.failed(code, object, err) }, ""
	}
	if err := decode.acquire(ctx, host); err != nil {
		return failed(http.StatusTooManyRequests, "", err)
	}
	defer decode.release()
	pod, err := ParsePod(req.Object.Raw)
	if errors.Is(err, errElements) {
		return func() admission.Response { return h.denied("", err) }, ""
	}
	if err != nil {
		return failed(http.StatusBadRequest, "", fmt.Errorf("request: found an object that cannot be decoded, want a pod: %w", err))
	}
	if !requests(pod, h.domain) {
		return func() admission.Response { return admission.Allowed("") }, ""
	}
	// Most pods don't have a name yet, because the API server generates it after admission.
	name := pod.Metadata.Name
	if name == "" {
		name = pod.Metadata.GenerateName + "*"
	}
	name = fmt.Sprintf("Pod/%s/%.253s", req.Namespace, name) // not validated yet
	mappings, err := table()
	if err != nil {
		return failed(http.StatusInternalServerError, name, err)
	}
	after, err := Mutate(pod, mappings)
	if err != nil {
		if errors.Is(err, mapping.ErrUnknown) {
			unknown = name
		}
		return func() admission.Response { return h.denied(name, err) }, unknown
	}
	ops, dropped := patch(pod, after)
	return func() admission.Response {
		if len(ops) == 0 {
			return admission.Allowed("")
		}
		h.log.Info("pod mapped", logevent.AdmissionMapped, logevent.Object(name))
		return admission.Patched("", ops...).WithWarnings(warnings(dropped)...)
	}, ""
}

func (h *Handler) denied(object string, err error) admission.Response {
	text := short(err)
	h.log.Warn("pod denied", logevent.AdmissionDenied, logevent.Object(object), logevent.Reason(text))
	return admission.Denied(text)
}

func (h *Handler) failed(code int32, object string, err error) admission.Response {
	err = errors.New(short(err))
	h.log.Error("admission failed", logevent.AdmissionFailed, logevent.Object(object), logevent.Err(err))
	return admission.Errored(code, err)
}

// short cuts an error's text off after 1000 bytes, because the text may quote the request.
func short(err error) string {
	text := err.Error()
	return text[:min(len(text), 1000)]
}

// table reads a namespace's mappings.
func (h *Handler) table(ctx context.Context, reader client.Reader, namespace string) (*mapping.Table, error) {
	var functions v2.AcceleratorFunctionList
	var regions v2.FpgaRegionList
	for _, list := range []client.ObjectList{&functions, &regions} {
		// Don't copy the objects, which may belong to the cache: NewTable only reads them.
		if err := reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("mappings of namespace %s: %w", namespace, err)
		}
	}
	return mapping.NewTable(h.domain, functions.Items, regions.Items), nil
}

// liveTable reads a namespace's mappings from the API server. It waits while another request is reading the mappings of
// the same namespace, or while liveLimit other requests are reading.
func (h *Handler) liveTable(ctx context.Context, namespace string) (*mapping.Table, error) {
	leave, err := h.limits.namespaces.enter(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("mappings of namespace %s: another request is reading them from the API server: %w", namespace, err)
	}
	defer leave()
	if err := h.limits.reading.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("mappings of namespace %s: %d other requests are reading from the API server: %w", namespace, liveLimit, err)
	}
	defer h.limits.reading.Release(1)
	return h.table(ctx, h.live, namespace)
}

// requests reports whether a pod requests resources in the domain.
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

// warnings returns the warnings about dropped variables for a pod's creator.
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
