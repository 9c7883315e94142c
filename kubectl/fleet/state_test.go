package fleet_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestParse(t *testing.T) {
	got, err := fleet.Parse([]byte(`{"version":"v1","api":"dra","holdersError":"no kubelet","stateDirError":"","incomplete":true,"new":1,"verdict":{"status":"bad","faulty":["3b:00.0"]},
		"devices":[{"id":"3b:00.0","health":"unhealthy","reasons":["port-ap6","\u001b[31m\u202e"],"portId":0,"new":{"a\u009b":[null]}}],
		"cards":[{"card":"3b:00.0","healthChanges":3,"recent":[]}],"cordons":[{"device":"5e:00.0","by":"jane"}]}`))
	want := fleet.State{
		Version: "v1", API: "dra", Problems: []string{"the holders of devices are not known: no kubelet", "not all cards have been read yet"},
		Devices: []map[string]any{{
			"id": "3b:00.0", "health": "unhealthy", "reasons": []any{"port-ap6", `\x1b[31m\u202e`}, "portId": int64(0), "new": map[string]any{`a\u009b`: []any{nil}},
		}},
		Cards:   []map[string]any{{"card": "3b:00.0", "healthChanges": int64(3), "recent": []any{}}},
		Cordons: []map[string]any{{"device": "5e:00.0", "by": "jane"}},
		Faulty:  []string{"3b:00.0"},
	}
	compare.NoError(t, "state", err)
	compare.Values(t, "state", want, got)
	for text, want := range map[string]string{
		`[]`:                             "its answer is not that of the plugin, or incomplete: ",
		`{"version":1}`:                  "version: found none",
		`{"version":"v1","devices":{}}`:  "devices: found map[string]interface {}, want a list",
		`{"version":"v1","devices":[1]}`: "devices[0]: found int64, want an object",
		`{"version":"v1","devices":[{"id":"3b:00.0","health":1}]}`: "devices[0].health: found no text",
		`{"version":"v1","cards":[{}]}`:                            "cards[0].card: found no text",
		`{"version":"v1"} {}`:                                      "invalid character '{' after top-level value",
	} {
		compare.Error(t, text, want, compare.ErrorOf(fleet.Parse([]byte(text))))
	}
	compare.Equal(t, "a long text", strings.Repeat("é", 512)+"…", fleet.Printable(strings.Repeat("é", 1000)))
}

// harmless reports whether all texts in a JSON value can be shown on a terminal.
func harmless(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.IndexFunc(v, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 && strings.ToValidUTF8(v, "") == v
	case []any:
		for _, e := range v {
			if !harmless(e) {
				return false
			}
		}
	case map[string]any:
		for key, e := range v {
			if !harmless(key) || !harmless(e) {
				return false
			}
		}
	}
	return true
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(state("3b:00.0")))
	f.Add([]byte(`{"version":"v1","holdersError":"\u001b","devices":[{"id":"\u009b\ud800","health":"\n","x":1e999}],"cards":[{"card":"a","recent":[{"\u202e":{}}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := fleet.Parse(text)
		if err != nil {
			if !harmless(fleet.Printable(err.Error())) {
				t.Errorf("%q: error %q, want it printable", text, err)
			}
			return
		}
		all := []any{s.Version, s.API}
		for _, id := range s.Faulty {
			all = append(all, id)
		}
		for _, p := range s.Problems {
			all = append(all, p)
		}
		for _, objects := range [][]map[string]any{s.Devices, s.Cards} {
			for _, o := range objects {
				all = append(all, o)
			}
		}
		if !harmless(all) {
			t.Errorf("%q: found %s, want printable texts", text, fmt.Sprintf("%q", all))
		}
	})
}
