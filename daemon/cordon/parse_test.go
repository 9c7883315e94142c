package cordon_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestParse(t *testing.T) {
	const since = `"since": "2026-11-22T10:22:00Z"`
	for _, tc := range []struct{ name, text, want string }{
		{"none", `{"cordons": []}`, ""},
		{"null", `null`, ""},
		{"one", `{"cordons": [{"device": "3b:00.0", "by": "a", "why": "w", ` + since + `}]}`, ""},
		{"list", `[]`, `want {"cordons": [...]}`},
		{"unknown key", `{"cordon": []}`, `unknown field "cordon"`},
		{"unknown key of one", `{"cordons": [{"device": "3b:00.0", "by": "a", "why": "w", "who": "", ` + since + `}]}`, `unknown field "who"`},
		{"two", `{"cordons": []} {}`, "found text after the JSON object"},
		{"capitals", `{"cordons": [{"device": "3B:00.0", "by": "a", "why": "w", ` + since + `}]}`, `cordons[0]: device: found "3B:00.0", want "3b:00.0"`},
		{"no device", `{"cordons": [{"by": "a", "why": "w", ` + since + `}]}`, `cordons[0]: device: found "", want the PCI address`},
		{"no since", `{"cordons": [{"device": "3b:00.0", "by": "a", "why": "w"}]}`, "cordons[0]: since: found none"},
		{"until before since", `{"cordons": [{"device": "3b:00.0", "by": "a", "why": "w", "until": "2026-11-22T10:21:00Z", ` + since + `}]}`, "cordons[0]: until: found 2026-11-22T10:21:00Z"},
		{"twice", `{"cordons": [{"device": "3b:00.0", "by": "a", "why": "w", ` + since + `}, {"device": "3b:00.0", "by": "b", "why": "w", ` + since + `}]}`, `found device "3b:00.0" twice`},
	} {
		_, err := cordon.Parse([]byte(tc.text))
		compare.Outcome(t, tc.name+": error", tc.want, err)
	}
}

func TestString(t *testing.T) {
	since := time.Date(2026, 11, 22, 10, 22, 0, 0, time.Local)
	c := cordon.Cordon{Device: "3b:00.0", By: "alice", Why: "replace the fan", Since: since}
	for until, want := range map[time.Time]string{
		{}:                        "3b:00.0 cordoned by alice since 2026-11-22 10:22: replace the fan",
		since.Add(2 * time.Hour):  "3b:00.0 cordoned by alice since 2026-11-22 10:22 until 12:22: replace the fan",
		since.Add(24 * time.Hour): "3b:00.0 cordoned by alice since 2026-11-22 10:22 until 2026-11-23 10:22: replace the fan",
	} {
		c.Until = until
		compare.Equal(t, "String", want, c.String())
	}
}

// FuzzParse checks that accepted cordons are sorted and safe to print, and that writing and parsing them again gives
// the same result.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"cordons": [{"device": "3b:00.0", "by": "a", "why": "w", "since": "2026-11-22T10:22:00+01:00", "until": "2026-11-23T00:00:00Z"}]}`))
	f.Add([]byte(`{"cordons": [{"device": "5e:00.0", "by": "a", "why": "w", "since": "2026-11-22T10:22:00Z"}, {"device": "10000:01:00.0-p3", "by": "é", "why": "<&>", "since": "2026-11-22T10:22:00.5Z"}]}`))
	f.Add([]byte(`{"cordons": null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := cordon.Parse(text)
		if err != nil {
			return
		}
		if len(all) > 256 || !slices.IsSortedFunc(all, func(a, b cordon.Cordon) int { return strings.Compare(a.Device, b.Device) }) {
			t.Fatalf("%d cordons, or not sorted", len(all))
		}
		for _, c := range all {
			if strings.ContainsFunc(c.String(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q can not be printed", c)
			}
		}
		written := must.Value(json.Marshal(map[string]any{"cordons": all}))(t)
		again, err := cordon.Parse(written)
		if diff := cmp.Diff(all, again); err != nil || diff != "" && len(all) > 0 {
			t.Errorf("%v, written and read again:\n%s", err, diff)
		}
	})
}
