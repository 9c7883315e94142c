package ui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/ui"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	host  = "127.0.0.1:40001"
	token = "SECRET"
)

func change(t *testing.T, node, text string) fleet.Change {
	t.Helper()
	state := must.Value(fleet.Parse([]byte(text)))(t)
	return fleet.Change{Key: node + "/fpga", Answer: fleet.Answer{Target: fleet.Target{Node: node, Namespace: "fpga-system", Pod: "fpga-" + node}, State: state}}
}

const state = `{"version":"0.3.0","api":"devicePlugin","verdict":{"faulty":["3b:00.0-p1"]},"devices":[
	{"id":"3b:00.0-p1","health":"unhealthy","reasons":["port-ap6"],"holder":["default/job/main"],"holderKnown":true,"resource":"b-com.com/accelerator"}],
	"cards":[{"card":"3b:00.0","healthChanges":3,"removals":1,"recent":[]}]}`

// Only a browser on this machine that has the URL can read the page, and nobody can write.
func TestWhoMayRead(t *testing.T) {
	board := ui.NewBoard("lab")
	board.Report(change(t, "worker-1", state))
	handler := ui.Handler(board, host, token)
	none := map[string]string{}
	for _, test := range []struct {
		name, method, host, path string
		headers                  map[string]string
		code                     int
		says                     string
	}{
		{"the page", "GET", host, "/SECRET/", none, 200, "<title>FPGA cards</title>"},
		{"its script", "GET", host, "/SECRET/page.js", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200, "use strict"},
		{"the address typed", "GET", host, "/SECRET/", map[string]string{"Sec-Fetch-Site": "none"}, 200, "<title>"},
		{"own origin", "GET", host, "/SECRET/node?key=worker-1%2Ffpga", map[string]string{"Origin": "http://" + host}, 200, `"healthChanges":3`},
		{"a reason", "GET", host, "/SECRET/explain?reason=port-ap6", none, 200, "the port was shut down because of power or heat"},
		{"an unknown reason", "GET", host, "/SECRET/explain?reason=%3Cscript%3E", none, 200, "null"},
		{"an unknown node", "GET", host, "/SECRET/node?key=x", none, 404, "found no answer"},
		{"an unknown file", "GET", host, "/SECRET/etc/passwd", none, 404, "not found"},
		{"no token", "GET", host, "/", none, 403, "token"},
		{"no token, a file", "GET", host, "/page.js", none, 403, "token"},
		{"wrong token", "GET", host, "/SECRES/", none, 403, "token"},
		{"token without a slash", "GET", host, "/SECRET", none, 403, "token"},
		{"foreign host", "GET", "evil.example:40001", "/SECRET/", none, 403, "Host"}, // DNS rebinding
		{"other port", "GET", "127.0.0.1:1", "/SECRET/", none, 403, "Host"},
		{"localhost", "GET", "localhost:40001", "/SECRET/", none, 403, "Host"},
		{"foreign origin", "GET", host, "/SECRET/", map[string]string{"Origin": "https://evil.example"}, 403, "another site"},
		{"null origin", "GET", host, "/SECRET/", map[string]string{"Origin": "null"}, 403, "another site"},
		{"another site", "GET", host, "/SECRET/", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, "another site"},
		{"another port", "GET", host, "/SECRET/", map[string]string{"Sec-Fetch-Site": "same-site"}, 403, "another site"},
		{"POST", "POST", host, "/SECRET/", none, 405, "can only be read"},
		{"PUT", "PUT", host, "/SECRET/node", none, 405, "can only be read"},
		{"DELETE", "DELETE", host, "/SECRET/node", none, 405, "can only be read"},
		{"OPTIONS", "OPTIONS", host, "/SECRET/", none, 405, "can only be read"},
		{"HEAD", "HEAD", host, "/SECRET/events", none, 405, ""},
	} {
		r := httptest.NewRequest(test.method, "http://"+test.host+test.path, nil)
		for name, value := range test.headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s: status %d, want %d and %q: %.200s", test.name, w.Code, test.code, test.says, w.Body)
		}
		if test.code == 403 && strings.Contains(w.Body.String(), token) {
			t.Errorf("%s: the refusal tells the token: %s", test.name, w.Body)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
				"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
			"Access-Control-Allow-Origin": "",
		} {
			if got := w.Header().Get(name); got != want && !(name == "Cache-Control" && test.code == 404) { // http.Error removes it
				t.Errorf("%s: %s: found %q, want %q", test.name, name, got, want)
			}
		}
	}
}

// The files of the page load nothing from other hosts, and do not parse HTML.
func TestPageFiles(t *testing.T) {
	handler := ui.Handler(ui.NewBoard(""), host, token)
	for _, name := range []string{"", "page.js", "style.css", "icon.svg"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "http://"+host+"/SECRET/"+name, nil))
		text := strings.ReplaceAll(w.Body.String(), `xmlns="http://www.w3.org/2000/svg"`, "")
		if w.Code != 200 || len(text) < 100 {
			t.Errorf("%q: status %d, %d bytes", name, w.Code, len(text))
		}
		for _, bad := range []string{"://", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function", "@import", "style=", "<style"} {
			if strings.Contains(text, bad) {
				t.Errorf("%q: found %s, want none", name, bad)
			}
		}
	}
}

// events connects to the events of a board. It returns a function that returns the next event.
func events(t *testing.T, board *ui.Board) func() map[string]any {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = ui.Handler(board, server.Listener.Addr().String(), token)
	server.Start()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); server.Close() })
	r := must.Value(http.NewRequestWithContext(ctx, "GET", server.URL+"/SECRET/events", nil))(t)
	answer := must.Value(http.DefaultClient.Do(r))(t)
	t.Cleanup(func() { answer.Body.Close() })
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("Content-Type: found %s", got)
	}
	lines := bufio.NewReader(answer.Body)
	return func() map[string]any {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil && err != io.EOF || line == "" {
				t.Fatalf("events: %v", err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var event map[string]any
				must.Succeed(t, json.Unmarshal([]byte(data), &event))
				return event
			}
		}
	}
}

// The first event contains all nodes, and each later event what has changed. If a node fails, its devices stay,
// together with the error.
func TestEvents(t *testing.T) {
	board := ui.NewBoard("lab")
	board.Report(change(t, "worker-1", state))
	next := events(t, board)
	devices := []any{map[string]any{
		"id": "3b:00.0-p1", "card": "3b:00.0", "health": "unhealthy", "fault": true, "reasons": []any{"port-ap6"}, "holder": "default/job/main", "cordon": "",
		"changes": 0., "more": false,
	}}
	node := func(name, err string, asked bool, devices []any) map[string]any {
		n := map[string]any{
			"key": name + "/fpga", "node": name, "pod": "fpga-system/fpga-" + name, "version": "", "api": "", "asked": asked, "error": err, "notes": nil, "devices": devices,
		}
		if len(devices) > 0 {
			n["version"], n["api"] = "0.3.0", "devicePlugin"
		}
		return n
	}
	event := func(all bool, trouble string, nodes, gone []any) map[string]any {
		return map[string]any{"cluster": "lab", "kubectl": []any{"kubectl", "kubectl accelerator"}, "all": all, "trouble": trouble, "nodes": nodes, "gone": gone}
	}
	expect := func(what string, want map[string]any) {
		t.Helper()
		if diff := cmp.Diff(want, next()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("first", event(true, "", []any{node("worker-1", "", false, devices)}, []any{}))
	two := fleet.Change{Key: "worker-2/fpga", Answer: fleet.Answer{Target: fleet.Target{Node: "worker-2", Namespace: "fpga-system", Pod: "fpga-worker-2"}, Err: fleet.ErrAsked}}
	board.Report(two)
	expect("a new node", event(false, "", []any{node("worker-2", "", true, []any{})}, []any{}))
	broken := change(t, "worker-1", state)
	broken.State, broken.Err = fleet.State{}, errors.New("broken\x1b[31m")
	board.Report(broken)
	expect("a node that fails", event(false, "", []any{node("worker-1", `broken\x1b[31m`, false, devices)}, []any{}))
	board.Report(fleet.Change{Answer: fleet.Answer{Err: errors.New("no API server")}})
	expect("trouble", event(false, "no API server", []any{}, []any{}))
	board.Report(fleet.Change{})
	expect("end of trouble", event(false, "", []any{}, []any{}))
	board.Report(fleet.Change{})
	board.Report(fleet.Change{Key: "worker-2/fpga", Gone: true})
	expect("a node that is gone", event(false, "", []any{}, []any{"worker-2/fpga"}))
}

// What a node answers reaches the page only inside JSON, even if a browser guesses the content type.
func TestHostileNode(t *testing.T) {
	board := ui.NewBoard("</script><script>alert(1)</script>")
	evil := `<img src=x onerror=alert(1)></script>\u0000\u001b[31m\u202e\n\ndata: {}\n\n`
	board.Report(change(t, "worker-1", `{"version":"`+evil+`","api":"`+evil+`","holdersError":"`+evil+`","devices":[
		{"id":"`+evil+`","health":"`+evil+`","reasons":["`+evil+`",{"`+evil+`":1},null],"holder":"`+evil+`","holderKnown":true,"cordon":"x","missingSince":7}],
		"cards":[{"card":"`+evil+`","healthChanges":"many","recent":{"a":1}},{"card":"x","recent":[1,null,{"time":{}}]}]}`))
	next := events(t, board)
	event := next()
	devices := event["nodes"].([]any)[0].(map[string]any)["devices"].([]any)
	if id := devices[0].(map[string]any)["id"].(string); !strings.HasPrefix(id, "<img src=x onerror=alert(1)></script>\\x00\\x1b[31m\\u202e") {
		t.Errorf("found id %q, want the text with its control characters escaped", id)
	}
	w := httptest.NewRecorder()
	ui.Handler(board, host, token).ServeHTTP(w, httptest.NewRequest("GET", "http://"+host+"/SECRET/node?key=worker-1%2Ffpga", nil))
	if got := w.Header().Get("Content-Type"); w.Code != 200 || got != "application/json" || strings.ContainsAny(w.Body.String(), "<>\x1b\x00") {
		t.Errorf("status %d, type %s, want 200, JSON, and no HTML:\n%s", w.Code, got, w.Body)
	}
}
