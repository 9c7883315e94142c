package admission

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
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

// ServeHTTP answers an AdmissionReview. It denies requests that are too large or for which there is no room, even if
// failurePolicy is Ignore. It also denies a request that doesn't arrive in time, if the request's UID is known.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			h.failed(http.StatusInternalServerError, "", fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			http.Error(w, "the operator has a bug: see its log", http.StatusInternalServerError)
		}
	}()
	switch size := r.ContentLength; {
	case r.Method != http.MethodPost:
		http.Error(w, fmt.Sprintf("method: found %.20q, want POST", r.Method), http.StatusMethodNotAllowed)
		return
	case size <= 0:
		http.Error(w, "Content-Length: found none, want the size of an AdmissionReview", http.StatusLengthRequired)
		return
	case size > maxBody:
		head := make([]byte, headBytes)
		n, _ := io.ReadFull(r.Body, head)
		h.refuse(w, head[:n], http.StatusRequestEntityTooLarge, errLarge)
		return
	}
	if id, resp, ok := h.review(w, r); ok {
		h.answer(w, id, resp)
	}
}

// review reads a request and handles it. ok is false if review has already written the answer. A large request takes up
// room only from the arrival of its first bytes until its answer is known, because a client might never send or read
// anything.
func (h *Handler) review(w http.ResponseWriter, r *http.Request) (id types.UID, resp admission.Response, ok bool) {
	size := int(r.ContentLength)
	body := make([]byte, min(size, smallBody))
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	n, err := io.ReadFull(r.Body, body)
	if err == nil && size > smallBody {
		release, busy := h.limits.receive(r.Context(), host, size)
		if busy != nil {
			h.refuse(w, body[:headBytes], http.StatusTooManyRequests, busy)
			return "", resp, false
		}
		defer release()
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(largeWithin)) // fails only in tests
		body = append(make([]byte, 0, size), body...)[:size]
		_, err = io.ReadFull(r.Body, body[smallBody:])
	}
	if err != nil {
		h.refuse(w, body[:min(n, headBytes)], http.StatusTooManyRequests, errSlow)
		return "", resp, false
	}
	if !httpd.Complete(r) {
		return "", resp, false
	}
	req, err := parseReview(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return "", resp, false
	}
	return req.UID, h.handleFrom(r.Context(), host, req), true
}

// refuse denies a request of which only the beginning (head) has been read.
func (h *Handler) refuse(w http.ResponseWriter, head []byte, code int32, reason error) {
	w.Header().Set("Connection", "close") // because the rest of the body isn't read
	found := uid.FindSubmatch(head)
	if found == nil {
		http.Error(w, reason.Error(), int(code))
		return
	}
	begin := time.Now()
	resp := h.failed(code, "", reason)
	h.metrics.Request(result(resp), time.Since(begin))
	h.answer(w, types.UID(found[1]), resp)
}

// answer writes the response to a request.
func (h *Handler) answer(w http.ResponseWriter, id types.UID, resp admission.Response) {
	if err := resp.Complete(admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: id}}); err != nil {
		resp = h.failed(http.StatusInternalServerError, "", err)
		resp.UID = id
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

// parseReview returns the request in an AdmissionReview with only the fields that Handle reads. The other fields aren't
// decoded, because the list of the user's groups, for example, can take up many times as much memory as its JSON.
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
	if !validUID.MatchString(string(r.UID)) { // the answer repeats the UID
		return admission.Request{}, fmt.Errorf("request.uid: found %.80q, want 1 to 64 letters, digits and hyphens", r.UID)
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: r.UID, Resource: r.Resource, SubResource: r.SubResource,
		Namespace: r.Namespace, Operation: r.Operation, Object: runtime.RawExtension{Raw: r.Object}}}, nil
}

// uid matches a request's UID. API servers write the UID as the request's first field, so no user input precedes it.
var (
	uid      = regexp.MustCompile(`"request":\{"uid":"([-0-9A-Za-z]{1,64})"`)
	validUID = regexp.MustCompile(`^[-0-9A-Za-z]{1,64}$`)
)
