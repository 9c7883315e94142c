package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"b-com.com/accelerator-device-plugin/internal/httpd"
)

// ServeHTTP answers an AdmissionReview. Requests that are too large, and those for which there is no room, are
// denied, whatever the failurePolicy is.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			h.failed(http.StatusInternalServerError, "", fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			http.Error(w, "the operator has a bug: see its log", http.StatusInternalServerError)
		}
	}()
	size := r.ContentLength
	switch {
	case r.Method != http.MethodPost:
		http.Error(w, fmt.Sprintf("method: found %.20q, want POST", r.Method), http.StatusMethodNotAllowed)
		return
	case size <= 0:
		http.Error(w, "Content-Length: found none, want the size of an AdmissionReview", http.StatusLengthRequired)
		return
	case size > maxBody:
		h.refuse(w, r, http.StatusRequestEntityTooLarge, errLarge)
		return
	case size > smallBody:
		ctx, cancel := context.WithTimeout(r.Context(), largeWithin)
		err := h.turns.bytes.Acquire(ctx, size)
		cancel()
		if err != nil {
			h.refuse(w, r, http.StatusTooManyRequests, errBusy)
			return
		}
		defer h.turns.bytes.Release(size)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(largeWithin)) // a test's writer has none
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return
	}
	if !httpd.Complete(r) {
		return
	}
	req, err := parseReview(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.answer(w, req, h.Handle(r.Context(), req))
}

// refuse denies a request without reading more than its head.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, code int32, reason error) {
	w.Header().Set("Connection", "close") // the rest of the body is not read
	head := make([]byte, headBytes)
	n, _ := io.ReadFull(r.Body, head)
	found := uid.FindSubmatch(head[:n])
	if found == nil {
		http.Error(w, reason.Error(), int(code))
		return
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: types.UID(found[1])}}
	begin := time.Now()
	resp := h.failed(code, "", reason)
	h.metrics.Request(result(resp), time.Since(begin))
	h.answer(w, req, resp)
}

// answer writes the response to a request.
func (h *Handler) answer(w http.ResponseWriter, req admission.Request, resp admission.Response) {
	if err := resp.Complete(req); err != nil {
		resp = h.failed(http.StatusInternalServerError, "", err)
		resp.UID = req.UID
	}
	text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Response: &resp.AdmissionResponse})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // an error means that the client has disconnected
}

var reviewType = metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}

// parseReview returns the request of an AdmissionReview, with the fields that Handle reads. The others are not
// decoded: lists of the user's groups, for instance, can take many times the memory of their JSON.
func parseReview(body []byte) (admission.Request, error) {
	var review struct {
		metav1.TypeMeta `json:",inline"`

		Request *struct {
			UID         types.UID                   `json:"uid"`
			Resource    metav1.GroupVersionResource `json:"resource"`
			SubResource string                      `json:"subResource"`
			Namespace   string                      `json:"namespace"`
			Operation   admissionv1.Operation       `json:"operation"`
			Object      json.RawMessage             `json:"object"`
		} `json:"request"`
	}
	if err := kjson.Unmarshal(body, &review); err != nil {
		return admission.Request{}, fmt.Errorf("body: found no AdmissionReview: %.200s", err.Error())
	}
	if review.TypeMeta != reviewType || review.Request == nil {
		return admission.Request{}, fmt.Errorf("body: found apiVersion %.40q, kind %.40q, request %t, want an AdmissionReview of admission.k8s.io/v1 with a request",
			review.APIVersion, review.Kind, review.Request != nil)
	}
	r := review.Request
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: r.UID, Resource: r.Resource, SubResource: r.SubResource,
		Namespace: r.Namespace, Operation: r.Operation, Object: runtime.RawExtension{Raw: r.Object}}}, nil
}

// uid matches the uid of a request. An API server writes it as the first field of the request, so nothing that a
// user chooses is before it.
var uid = regexp.MustCompile(`"request":\{"uid":"([-0-9A-Za-z]{1,64})"`)
