package redact_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/kubectl/redact"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const secret = "hunter2-s3cr3t"

// What is kept, and what is not.
func TestShapes(t *testing.T) {
	for _, test := range []struct {
		name        string
		shape       redact.Shape
		given, want string // JSON
	}{
		{"state", redact.State, `{"version":"0.3.0-5-gabcdef0","api":"dra","mode":"af","kubeletDir":"/srv/hunter2-s3cr3t","holdersError":"dial hunter2-s3cr3t: connection refused","hunter2-s3cr3t":1,
			"settings":{"hash":"0123456789ab","refused":"line 3: hunter2-s3cr3t","restart":["mode","--resync-interval","hunter2-s3cr3t"]},
			"devices":[{"id":"3b:00.0-p1","health":"unhealthy","reasons":["port-ap6","recovering=power-throttled=6","not-rescanned=1d0f:f010","hunter2-s3cr3t","port-ap6\nhunter2-s3cr3t","port-ap6\n"],"resource":"b-com.com/accelerator","held":true,"numaNode":-1,
				"sensors":[{"chip":"","sensor":"die","kind":"temperature","value":49,"max":90,"of":"FPGA FABRIC Digital Temperature#4"},{"chip":"hunter2-s3cr3t","sensor":"hunter2-s3cr3t","kind":"hunter2-s3cr3t","value":1}],
				"holder":["hunter2-s3cr3t/job/main","b/c/d"],"holderUids":["hunter2-s3cr3t",""],"cordon":{"device":"3b:00.0","by":"hunter2-s3cr3t","why":"hunter2-s3cr3t"},"deviceNodes":["/dev/dfl-port.0","/dev/hunter2-s3cr3t"],"mounts":["/sys/devices/pci0000:00/0000:00:1e.0/resource4_wc","/sys/hunter2-s3cr3t/resource0"]},
				{"id":"hunter2-s3cr3t","health":"healthy","resource":"hunter2-s3cr3t/fpga","holder":["hunter2-s3cr3t/job/main"],"attributes":{"hunter2-s3cr3t":"a","slot":"3","vbnv":"hunter2-s3cr3t"}}],
			"cards":[{"card":"3b:00.0","healthChanges":7,"recent":[{"time":"2026-11-20T00:00:00.000Z","device":"3b:00.0","from":"healthy","to":"unhealthy","reason":"port-ap6"}],"former":{"serial":"hunter2-s3cr3t","removals":1}}]}`,
			`{"version":"0.3.0-5-gabcdef0","api":"dra","mode":"af","kubeletDir":"(removed)","holdersError":"(removed) connection refused",
			"settings":{"hash":"0123456789ab","refused":"(removed)","restart":["(removed)","(removed)","(removed)"]},
			"devices":[{"id":"3b:00.0-p1","health":"unhealthy","reasons":["port-ap6","recovering=power-throttled=6","not-rescanned=1d0f:f010","(removed)","(removed)","(removed)"],"resource":"b-com.com/accelerator","held":true,"numaNode":-1,
				"sensors":[{"chip":"","sensor":"die","kind":"temperature","value":49,"max":90,"of":"FPGA FABRIC Digital Temperature#4"},{"chip":"(removed)","sensor":"(removed)","kind":"(removed)","value":1}],
				"holder":["container-1","container-2"],"holderUids":["pod-1",""],"cordon":{"device":"3b:00.0","by":"(removed)","why":"(removed)"},"deviceNodes":["/dev/dfl-port.0","(removed)"],"mounts":["/sys/devices/pci0000:00/0000:00:1e.0/resource4_wc","(removed)"]},
				{"id":"(removed)","health":"healthy","resource":"resource-1","holder":["container-1"],"attributes":{"slot":"3","vbnv":"(removed)"}}],
			"cards":[{"card":"3b:00.0","healthChanges":7,"recent":[{"time":"2026-11-20T00:00:00.000Z","device":"3b:00.0","from":"healthy","to":"unhealthy","reason":"port-ap6"}],"former":{"serial":"(removed)","removals":1}}]}`},
		{"version of a commit between releases", redact.State, `{"version":"0.3.0-dev+1a2b3c4d5e6f.dirty"}`, `{"version":"0.3.0-dev+1a2b3c4d5e6f.dirty"}`},
		{"version of a candidate", redact.State, `{"version":"0.3.0-rc.1"}`, `{"version":"0.3.0-rc.1"}`},
		{"version of a changed release", redact.State, `{"version":"0.3.0+dirty"}`, `{"version":"0.3.0+dirty"}`},
		{"forged version", redact.State, `{"version":"0.3.0-hunter2+s3cr3t"}`, `{"version":"(removed)"}`},
		{"version without a tag", redact.State, `{"version":"bbc5002c"}`, `{"version":"bbc5002c"}`},
		{"settings", redact.Settings, `{"mode":"af","recoveryHold":"1m30s","events":true,"stateDir":"/srv/hunter2-s3cr3t","exclude":["3b:00.0"],"password":"hunter2-s3cr3t",
			"nodes":{"worker-3":{"exclude":["5e:00.0"]},"hunter2-s3cr3t":{"exclude":["60:00.0"]}},"health":{"severity":{"port-ap6":"ignored","hunter2-s3cr3t":"fatal"}},
			"resources":[{"name":"hunter2-s3cr3t/x","match":{"pciVendor":"8086","vbnv":"hunter2-s3cr3t"}}]}`,
			`{"mode":"af","recoveryHold":"1m30s","events":true,"exclude":["3b:00.0"],
			"nodes":{"this node":{"exclude":["5e:00.0"]}},"health":{"severity":{"port-ap6":"ignored"}},"resources":[{"name":"resource-1","match":{"pciVendor":"8086","vbnv":"(removed)"}}]}`},
		{"ConfigMap", redact.ConfigMap, `{"metadata":{"name":"hunter2-s3cr3t"},"data":{"config.yaml":"mode: af\nlogLevel: hunter2-s3cr3t\n","overrides.yaml":"hunter2-s3cr3t: [","hunter2-s3cr3t":"mode: af"}}`,
			`{"data":{"config.yaml":{"mode":"af","logLevel":"(removed)"},"overrides.yaml":"(removed) cannot be parsed"}}`},
		{"pod", redact.Pod, `{"metadata":{"name":"hunter2-s3cr3t","namespace":"hunter2-s3cr3t","annotations":{"a":"hunter2-s3cr3t"},"labels":{"hunter2-s3cr3t":""}},
			"spec":{"containers":[{"name":"accelerator-device-plugin","image":"hunter2-s3cr3t","env":[{"name":"P","value":"hunter2-s3cr3t"}],"resources":{"limits":{"memory":"64Mi","hunter2-s3cr3t/x":"1"}}},{"name":"hunter2-s3cr3t"}]},
			"status":{"phase":"Running","containerStatuses":[{"name":"accelerator-device-plugin","restartCount":3,"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","message":"hunter2-s3cr3t"}}}]}}`,
			`{"metadata":{},"spec":{"containers":[{"name":"accelerator-device-plugin","resources":{"limits":{"memory":"64Mi"}}},{"name":"(removed)"}]},
			"status":{"phase":"Running","containerStatuses":[{"name":"accelerator-device-plugin","restartCount":3,"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","message":"(removed)"}}}]}}`},
		{"node", redact.Node, `{"metadata":{"name":"hunter2-s3cr3t","annotations":{"a":"hunter2-s3cr3t"}},"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"},{"key":"hunter2-s3cr3t","value":"hunter2-s3cr3t"}]},
			"status":{"allocatable":{"b-com.com/accelerator":"2","cpu":"7900m","hunter2-s3cr3t/x":"1"},"addresses":[{"address":"hunter2-s3cr3t"}],"nodeInfo":{"kernelVersion":"6.12.1-amd64","machineID":"hunter2-s3cr3t","containerRuntimeVersion":"containerd://2.1.4","kubeletVersion":"hunter2-s3cr3t"},
			"conditions":[{"type":"Ready","status":"False","message":"hunter2-s3cr3t"}]}}`,
			`{"metadata":{},"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"},{"key":"(removed)"}]},
			"status":{"allocatable":{"b-com.com/accelerator":"2","cpu":"7900m"},"nodeInfo":{"kernelVersion":"6.12.1-amd64","containerRuntimeVersion":"containerd://2.1.4","kubeletVersion":"(removed)"},"conditions":[{"type":"Ready","status":"False","message":"(removed)"}]}}`},
		{"slices", redact.Slices, `{"items":[{"metadata":{"name":"hunter2-s3cr3t","generation":2},"spec":{"driver":"accelerator.b-com.com","nodeName":"hunter2-s3cr3t","pool":{"name":"hunter2-s3cr3t","generation":4},
			"devices":[{"name":"pci-0000-3b-00-0-p1","attributes":{"pciId":{"string":"8086:09c4"},"portId":{"int":1},"hunter2-s3cr3t":{"string":"a"},"driver":{"string":"hunter2-s3cr3t"}},"taints":[{"key":"accelerator.b-com.com/unhealthy","value":"port-ap6","effect":"NoExecute"}]}]}}]}`,
			`{"items":[{"metadata":{"generation":2},"spec":{"driver":"accelerator.b-com.com","pool":{"generation":4},
			"devices":[{"name":"pci-0000-3b-00-0-p1","taints":[{"key":"accelerator.b-com.com/unhealthy","value":"port-ap6","effect":"NoExecute"}]}]}}]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := must.Value(redact.New("worker-3").JSON(test.shape, []byte(test.given)))(t)
			if diff := cmp.Diff(parse(t, test.want), parse(t, string(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, text := range []string{`"hunter2-s3cr3t"`, `["hunter2-s3cr3t"]`, `12`, `null`, `true`, `[{}]`} {
				if got, err := redact.New("").JSON(test.shape, []byte(text)); err != nil || strings.Contains(string(got), secret) {
					t.Errorf("%s: %s, %v", text, got, err)
				}
			}
			if _, err := redact.New("").JSON(test.shape, []byte(secret)); err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("no JSON: error %v", err)
			}
		})
	}
}

func parse(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// From a log, log lines of the daemon and positions in the code are kept.
func TestLog(t *testing.T) {
	got := redact.New("worker-3").Log([]byte(`{"level":"info","time":"2026-11-22T18:36:28.487145183Z","message":"hunter2-s3cr3t","event":"device.held","device":"5e:00.0","holders":["hunter2-s3cr3t/b/c"],"why":"hunter2-s3cr3t","lasted_ms":2.5,"key":"hunter2-s3cr3t"}
{"level":"info","event":"hunter2-s3cr3t"}
hunter2-s3cr3t
{"level":"warn","time":"2026-11-22T18:36:28.487145183Z","event":"kubelet.absent","error":"dial unix /hunter2-s3cr3t: connect: no such file or directory","resource":"hunter2-s3cr3t/x"}
panic: hunter2-s3cr3t

goroutine 7 [running]:
b-com.com/accelerator-device-plugin/inventory.hunter2(...)
	b-com.com/accelerator-device-plugin/inventory/node.go:12 +0x1f
	/home/hunter2-s3cr3t/node.go:12 +0x1f
goroutine 8 [hunter2-s3cr3t]:
{"level":"info","time":"2026-11-22T18:36:28.487145183Z","event":"device.freed","holders":["hunter2-s3cr3t/b/c"],"reason":"unhealthy: \"hunter2-s3cr3t\""}`))
	want := `{"device":"5e:00.0","event":"device.held","holders":["container-1"],"lasted_ms":2.5,"level":"info","time":"2026-11-22T18:36:28.487145183Z","why":"(removed)"}
(2 lines removed)
{"error":"(removed) no such file or directory","event":"kubelet.absent","level":"warn","resource":"resource-1","time":"2026-11-22T18:36:28.487145183Z"}
(2 lines removed)
goroutine 7 [running]:
(1 lines removed)
	b-com.com/accelerator-device-plugin/inventory/node.go:12 +0x1f
(2 lines removed)
{"event":"device.freed","holders":["container-1"],"level":"info","reason":"(removed) unhealthy","time":"2026-11-22T18:36:28.487145183Z"}
`
	compare.Values(t, "log", want, string(got))
	log := must.Value(os.ReadFile("../../internal/timeline/testdata/hotplug.log"))(t)
	if kept := redact.New("").Log(log); strings.Contains(string(kept), "lines removed") || strings.Count(string(kept), "\n") != strings.Count(string(log), "\n") {
		t.Errorf("lines of a recorded log are missing:\n%s", kept)
	}
}

// The shapes contain all keys that the program uses. For a new key, somebody has to decide.
func TestKeys(t *testing.T) {
	keys := func(v any) (all []string) {
		for f := range reflect.TypeOf(v).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all = append(all, name)
		}
		return all
	}
	for _, test := range []struct {
		name  string
		shape redact.Shape
		keys  []string
		in    func(map[string]any) any
	}{
		{"state", redact.State, keys(control.State{}), nil},
		{"row", redact.Rows, keys(view.Row{}), func(all map[string]any) any { return []any{all} }},
		{"history", redact.State, keys(ledger.History{}), func(all map[string]any) any { return map[string]any{"cards": []any{all}} }},
	} {
		for _, key := range test.keys {
			found := false
			for _, v := range []any{nil, "", 1, true, []any{}, map[string]any{}} {
				var given any = map[string]any{key: v}
				if test.in != nil {
					given = test.in(given.(map[string]any))
				}
				text, _ := json.Marshal(given)
				got, err := redact.New("").JSON(test.shape, text)
				found = found || err == nil && strings.Contains(string(got), `"`+key+`"`)
			}
			if !found {
				t.Errorf("%s: the key %s is not in the shape", test.name, key)
			}
		}
	}
}

// The names of all families and the reasons of all verdicts are kept. (The chart's schema lists the families, and a test
// of the daemon compares that list with its own.)
func TestFamiliesAndReasons(t *testing.T) {
	schema := must.Value(os.ReadFile("../../deploy/helm/accelerator-device-plugin/values.schema.json"))(t)
	enum := regexp.MustCompile(`"family": \{"enum": (\[[^]]*\])`).FindSubmatch(schema)
	if enum == nil {
		t.Fatal("values.schema.json: found no list of families")
	}
	for _, family := range parse(t, string(enum[1])).([]any) {
		keeps(t, redact.Rows, fmt.Sprintf(`[{"family":%q}]`, family))
		keeps(t, redact.Settings, fmt.Sprintf(`{"families":%q,"resources":[{"match":{"family":%q}}]}`, family, family))
	}
	judge := must.Value(os.ReadFile("../../daemon/nodecondition/judge.go"))(t)
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^\t([A-Z]\w+) += "(\w+)"`).FindAllSubmatch(judge, -1) {
		if name := string(m[1]); name == string(m[2]) {
			keeps(t, redact.State, fmt.Sprintf(`{"verdict":{"reason":%q}}`, name))
			found++
		}
	}
	if found == 0 {
		t.Error("judge.go: found no reasons")
	}
}

// keeps checks that a shape keeps a whole JSON text.
func keeps(t *testing.T, shape redact.Shape, text string) {
	t.Helper()
	got := must.Value(redact.New("worker-3").JSON(shape, []byte(text)))(t)
	if diff := cmp.Diff(parse(t, text), parse(t, string(got))); diff != "" {
		t.Errorf("(-given +kept):\n%s", diff)
	}
}

// Whatever a part contains, none of its text comes through, neither in place of a value nor behind one.
func FuzzRedact(f *testing.F) {
	f.Add([]byte(`{"version":"0.3.0","devices":[{"id":"3b:00.0","reasons":["port-ap6"],"holder":["a/b/c"]}],"cards":[{"card":"3b:00.0"}]}`), false)
	f.Add([]byte(`{"level":"info","time":"2026-11-22T18:36:28Z","event":"device.held","holders":["a/b/c"],"error":"x"}`), true)
	f.Add([]byte(`{"mode":"af","exclude":["3b:00.0"],"nodes":{"worker-3":{"exclude":["3b:00.0"]}},"resources":[{"name":"a/b","match":{"family":"dfl"}}]}`), false)
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"driver":"x","taints":[{"key":"a"}]},"status":{"capacity":{"a":"1"},"conditions":[{"type":"Ready"}],"nodeInfo":{"kernelVersion":"6.1"}}}`), true)
	f.Add([]byte(`{"items":[{"spec":{"devices":[{"name":"pci-0000-3b-00-0","attributes":{"pciId":{"string":"8086:09c4"}}}]}}]}`), false)
	f.Fuzz(func(t *testing.T, text []byte, behind bool) {
		var v any
		if json.Unmarshal(text, &v) != nil {
			return
		}
		poisoned := must.Value(json.Marshal(poison(v, behind)))(t)
		for _, shape := range []redact.Shape{redact.State, redact.Rows, redact.Settings, redact.ConfigMap, redact.Pod, redact.Node, redact.Slices} {
			for _, given := range [][]byte{text, poisoned} {
				r := redact.New("worker-3")
				once := must.Value(r.JSON(shape, given))(t)
				if strings.Contains(string(once), secret) && !strings.Contains(string(text), secret) {
					t.Errorf("%s comes through: %s", given, once)
				}
			}
		}
		if out := redact.New("worker-3").Log(append(poisoned, "\n"+secret+"\n"...)); strings.Contains(string(out), secret) && !strings.Contains(string(text), secret) {
			t.Errorf("%s comes through: %s", poisoned, out)
		}
	})
}

// poison replaces all texts and unknown keys with the secret, or appends it to them.
func poison(v any, behind bool) any {
	switch v := v.(type) {
	case string:
		if behind {
			return v + "\x00" + secret
		}
		return secret
	case []any:
		for i := range v {
			v[i] = poison(v[i], behind)
		}
	case map[string]any:
		for key := range v {
			v[key] = poison(v[key], behind)
		}
		v[secret] = map[string]any{"value": secret}
	}
	return v
}
