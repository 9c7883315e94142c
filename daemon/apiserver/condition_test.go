package apiserver_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

const kind = "example.com/CardsHealthy"

// TestCondition compares the requests byte for byte, and checks that another program's condition is left alone.
func TestCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, w := writing(t, nil)
		server.Set(name, "u", nil)
		ready := simapiserver.Condition{Type: "Ready", Status: "True", Manager: "kubelet"}
		server.SetCondition(name, ready)
		var got []string
		server.UseFault(func(_ http.ResponseWriter, r *http.Request) bool {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			got = append(got, strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Content-Type"), r.Header.Get("Accept"), string(body)}, " "))
			return false
		})
		first, err := w.Condition(name, kind)
		if first != (apiserver.Condition{Type: kind}) || err != nil {
			t.Errorf("Condition = %+v, %v, want none", first, err)
		}
		want := apiserver.Condition{
			Type: kind, Status: "False", Reason: "CardFault", Message: "1 of 8 cards: 3b:00.0 port-ap6",
			Transition: time.Date(2026, 11, 20, 4, 12, 0, 0, time.FixedZone("CET", 3600)),
		}
		must.Succeed(t, w.Apply(name, want))
		read, err := w.Condition(name, kind)
		if want.Transition = want.Transition.UTC(); read != want || err != nil {
			t.Errorf("Condition = %+v, %v, want %+v", read, err, want)
		}
		compare.Values(t, "condition Ready", ready, server.Conditions(name)[0])
		const read0 = `PATCH /api/v1/nodes/worker-3/status?dryRun=All application/merge-patch+json application/json {}`
		compare.Values(t, "requests", []string{read0,
			`PATCH /api/v1/nodes/worker-3/status?fieldManager=accelerator-device-plugin+example.com%2FCardsHealthy application/apply-patch+yaml ` +
				`application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1 {"apiVersion":"v1","kind":"Node","metadata":{"name":"worker-3"},` +
				`"status":{"conditions":[{"lastHeartbeatTime":"2000-01-01T00:00:00Z","lastTransitionTime":"2026-11-20T03:12:00Z",` +
				`"message":"1 of 8 cards: 3b:00.0 port-ap6","reason":"CardFault","status":"False","type":"example.com/CardsHealthy"}]}}`,
			read0}, got)
	})
}

func TestConditionErrors(t *testing.T) {
	for _, test := range []struct {
		name, node string
		prepare    func(*simapiserver.Server)
		is         error
		want       string
	}{
		{"no node", name, func(*simapiserver.Server) {}, apiserver.ErrNotFound, "node worker-3: 404 Not Found"},
		{"no right", name, func(s *simapiserver.Server) { s.UseFault(refuse(403, "policy")) }, apiserver.ErrForbidden,
			"node worker-3: 403 Forbidden: policy (the account needs the verb patch on nodes/status, in a ClusterRole)"},
		{"owned by another program", name, func(s *simapiserver.Server) {
			s.Set(name, "u", nil)
			s.SetCondition(name, simapiserver.Condition{Type: kind, Status: "True", Manager: "agent"})
		}, apiserver.ErrExists, "write the condition " + kind + " of node worker-3: 409 Conflict: Apply failed with 1 conflict: conflict with agent"},
		{"no name of a node", "a/../b", func(*simapiserver.Server) {}, apiserver.ErrRefused, "want a DNS name in lower case"},
	} {
		bubble.Run(t, test.name, func(t *testing.T) {
			server, w := writing(t, nil)
			test.prepare(server)
			err := w.Apply(test.node, apiserver.Condition{Type: kind, Status: "True"})
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Apply: %v, want %v with %q", err, test.is, test.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // another program has written our condition
		const ours = "accelerator.b-com.com/X"
		server, w := writing(t, nil)
		server.Set(name, "u", nil)
		server.SetCondition(name, simapiserver.Condition{Type: ours, Status: "True", Manager: "agent"})
		if err := w.Apply(name, apiserver.Condition{Type: ours, Status: "False"}); err != nil || server.Conditions(name)[0].Status != "False" {
			t.Errorf("Apply: %v, conditions %+v, want it overwritten", err, server.Conditions(name))
		}
	})
	synctest.Test(t, func(t *testing.T) { // the response is about another node
		server, w := writing(t, nil)
		server.UseFault(func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(w, `{"kind":"Node","metadata":{"name":"other","uid":"u"}}`)
			return true
		})
		compare.Error(t, "Condition", `found node "other"`, compare.ErrorOf(w.Condition(name, kind)))
	})
}
