package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxRefusal = 64 << 10    // bytes of the body of a refusal that are read
	maxWords   = 300         // bytes of it that are repeated
	maxRetry   = time.Minute // the longest Retry-After that is heeded
)

// What an error of a [Writer] may be, for [errors.Is].
var (
	ErrNotFound     = errors.New("no such object")
	ErrExists       = errors.New("there is one of that name")
	ErrUnauthorized = errors.New("the token or certificate is not accepted") // it may be renewed
	ErrForbidden    = errors.New("the account has no right to do this")      // it may get it
	ErrEnding       = errors.New("the namespace is being deleted")
	ErrRefused      = errors.New("refused, and will be each time")
)

// refusal is an answer other than 200 and 201.
type refusal struct {
	code    int
	ending  bool          // because the namespace is being deleted
	words   string        // what the server says about it
	retry   time.Duration // what it asks us to wait
	account string        // what the account needs, where that is the matter
}

func (r *refusal) Error() string {
	text := strconv.Itoa(r.code)
	if name := http.StatusText(r.code); name != "" {
		text += " " + name
	}
	if r.words != "" {
		text += ": " + r.words
	}
	if r.account != "" {
		text += " (" + r.account + ")"
	}
	return text
}

// Is says what a refusal is.
func (r *refusal) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return r.code == http.StatusNotFound
	case ErrExists:
		return r.code == http.StatusConflict
	case ErrUnauthorized:
		return r.code == http.StatusUnauthorized
	case ErrForbidden:
		return r.code == http.StatusForbidden && !r.ending
	case ErrEnding:
		return r.ending
	case ErrRefused:
		return r.ending || slices.Contains(final, r.code)
	}
	return false
}

// final are the answers that do not depend on the time.
var final = []int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusGone,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
}

// retryAfter is how long the server asks us to wait.
func retryAfter(err error) time.Duration {
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused.retry
	}
	return 0
}

// refusedBy reads what the server says: a Status object or, of a proxy, text.
func refusedBy(answer *http.Response) *refusal {
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal)) // what arrived is enough
	r := parseRefusal(answer.StatusCode, body)
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		r.retry = min(time.Duration(min(seconds, 3600))*time.Second, maxRetry)
	}
	return r
}

func parseRefusal(code int, body []byte) *refusal {
	var status struct {
		object
		Details struct{ Causes []struct{ Reason string } }
	}
	r := &refusal{code: code, words: clip(string(body))}
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		return r
	}
	r.words = clip(status.Message)
	for _, cause := range status.Details.Causes {
		r.ending = r.ending || cause.Reason == "NamespaceTerminating"
	}
	return r
}

// clip keeps the beginning of a text of somebody else's, on one line.
func clip(text string) string {
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + " …"
	}
	return strings.Join(strings.Fields(text), " ")
}

// needing says what the account lacks for the verb on a resource, where err is a
// refusal for that.
func needing(err error, verb, resource string) error {
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case !ok:
	case refused.code == http.StatusUnauthorized:
		refused.account = ErrUnauthorized.Error()
	case refused.code == http.StatusForbidden && !refused.ending:
		refused.account = fmt.Sprintf("the account needs the verb %s on %s, in a ClusterRole", verb, resource)
	}
	return err
}
