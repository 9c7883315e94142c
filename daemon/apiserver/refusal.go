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
	maxRefusal = 64 << 10    // maximum number of bytes read from an error response's body
	maxWords   = 300         // maximum number of bytes of the body that are logged
	maxRetry   = time.Minute // longest Retry-After that is honored
)

// Kinds of errors that a [Writer] returns, for use with [errors.Is].
var (
	ErrNotFound     = errors.New("no such object")
	ErrExists       = errors.New("an object of that name exists")
	ErrUnauthorized = errors.New("the token or certificate is not accepted") // the credentials may be renewed later
	ErrForbidden    = errors.New("the account has no right to do this")      // the account may be granted the permission later
	ErrEnding       = errors.New("the namespace is being deleted")
	ErrRefused      = errors.New("refused for good")
)

// refusal is a response with a status other than 200 or 201.
type refusal struct {
	code   int
	ending bool          // the namespace is being deleted
	words  string        // the server's message
	needs  string        // the permission that the account needs
	retry  time.Duration // the server's Retry-After
}

func (r *refusal) Error() string {
	text := strings.TrimSpace(strconv.Itoa(r.code) + " " + http.StatusText(r.code))
	if r.words != "" {
		text += ": " + r.words
	}
	if r.needs != "" {
		text += " (" + r.needs + ")"
	}
	return text
}

// final lists the status codes after which there is no point in trying again.
var final = []int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusGone,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
}

// Is reports whether target is the error that corresponds to this refusal, such as [ErrNotFound].
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

// readRefusal reads an error response to the request c. The response's body is a Status object or, if it comes from a
// proxy, text.
func readRefusal(answer *http.Response, c call) *refusal {
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal)) // if there is an error, what has been read is enough
	r := parseRefusal(answer.StatusCode, body)
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		r.retry = min(time.Duration(min(seconds, 3600))*time.Second, maxRetry)
	}
	switch {
	case errors.Is(r, ErrUnauthorized):
		r.needs = ErrUnauthorized.Error()
	case errors.Is(r, ErrForbidden):
		r.needs = fmt.Sprintf("the account needs the verb %s on %s, in a ClusterRole", c.verb, c.resource)
		if c.resource == "nodes" {
			r.needs += ", or --node-annotation=false"
		}
	}
	return r
}

func parseRefusal(code int, body []byte) *refusal {
	var status struct {
		Kind, Message string
		Details       struct{ Causes []struct{ Reason string } }
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

// clip returns the first maxWords bytes of a message from the server, on a single line.
func clip(text string) string {
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + " …"
	}
	return strings.Join(strings.Fields(text), " ")
}
