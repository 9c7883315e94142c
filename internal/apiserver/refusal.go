package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxRefusal = 64 << 10    // bytes of the body of a refusal that are read
	maxWords   = 300         // bytes of it that are repeated
	maxRetry   = time.Minute // the longest Retry-After that is heeded
)

// refusal is an answer other than 200.
type refusal struct {
	code    int
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
	var status object
	words := string(body)
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		words = status.Message
	}
	return &refusal{code: code, words: clip(words)}
}

// clip keeps the beginning of a text of somebody else's, on one line.
func clip(text string) string {
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + " …"
	}
	return strings.Join(strings.Fields(text), " ")
}

// needing says what the account lacks for the verb, where err is a refusal for
// that.
func needing(err error, verb string) error {
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case !ok:
	case refused.code == http.StatusUnauthorized:
		refused.account = "the token or certificate is not accepted"
	case refused.code == http.StatusForbidden:
		refused.account = fmt.Sprintf("the account needs the verb %s on nodes, in a ClusterRole", verb)
	}
	return err
}
