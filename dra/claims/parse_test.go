package claims_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// configs are texts of configurations.
var configs = func() []configCase {
	const head = `{"apiVersion":"accelerator.b-com.com/v1alpha1","kind":"AcceleratorConfig"`
	const whole = head + `,"afuId":"` + afu + `"}`
	return []configCase{
		{name: "good", raw: whole},
		{name: "capitals", raw: head + `,"afuId":"D8424DC4A4A3C413F89E433683F9040B"}`},
		{name: "dashes", raw: head + `,"afuId":"d8424dc4-a4a3-c413-f89e-433683f9040b"}`},
		{name: "escapes", raw: strings.ReplaceAll(whole, "afuId", `\u0061fuId`)},
		{name: "empty", raw: "", want: "found unexpected end of JSON input, want an object with the fields apiVersion, kind and afuId", other: "parameters"},
		{name: "null", raw: "null", want: `apiVersion: found "", want "accelerator.b-com.com/v1alpha1"`, other: "parameters: Required value"},
		{name: "a list", raw: "[]", want: "found json: cannot unmarshal array", other: "must be a valid JSON object"},
		{name: "another version", raw: `{"apiVersion":"accelerator.b-com.com/v1","kind":"AcceleratorConfig"}`, want: `apiVersion: found "accelerator.b-com.com/v1", want "accelerator.b-com.com/v1alpha1"`},
		{name: "nothing", raw: `{}`, want: `apiVersion: found "", want "accelerator.b-com.com/v1alpha1"`},
		{name: "another kind", raw: `{"apiVersion":"accelerator.b-com.com/v1alpha1","kind":"GpuConfig"}`, want: `kind: found "GpuConfig", want "AcceleratorConfig"`},
		{name: "no id", raw: head + "}", want: `afuId: found "", want 32 hexadecimal digits`},
		{name: "an id of null", raw: head + `,"afuId":null}`, want: `afuId: found "", want 32 hexadecimal digits`, other: notString},
		{name: "a number", raw: head + `,"afuId":12345678901234567890123456789012}`, want: "found json: cannot unmarshal number", other: notString},
		{name: "an object", raw: head + `,"afuId":{"a":1}}`, want: "found json: cannot unmarshal object", other: notString},
		{name: "a list as kind", raw: `{"apiVersion":"accelerator.b-com.com/v1alpha1","kind":["AcceleratorConfig"]}`, want: "found json: cannot unmarshal array", other: notString},
		{name: "short", raw: head + `,"afuId":"d8424dc4"}`, want: `afuId: found "d8424dc4", want 32 hexadecimal digits, such as`},
		{name: "dashes elsewhere", raw: head + `,"afuId":"d8424dc4a4a3-c413-f89e-433683f9040b"}`, want: "want 32 hexadecimal digits"},
		{name: "a line end", raw: head + `,"afuId":"` + afu + `\n"}`, want: `\n", want 32`},
		{name: "a line end before it", raw: head + `,"afuId":"\n` + afu + `"}`, want: `"\n` + afu + `", want 32`},
		{name: "no hexadecimal digit", raw: head + `,"afuId":"g` + afu[1:] + `"}`, want: `afuId: found "g`},
		{name: "a digit of another script", raw: head + `,"afuId":"\u0661` + afu[1:] + `"}`, want: "want 32 hexadecimal digits"},
		{name: "a control character", raw: head + `,"afuId":"\u0000\u001b[31m"}`, want: "want 32 hexadecimal digits"},
		{name: "a long id", raw: head + `,"afuId":"` + strings.Repeat("é", 4000) + `"}`, want: `afuId: found "éé`},
		{name: "unknown field", raw: head + `,"afuId":"` + afu + `","mode":"fast"}`, want: `found unknown field "mode", want an object with the fields apiVersion, kind and afuId`},
		{name: "field in capitals", raw: head + `,"afuID":"` + afu + `"}`, want: `found unknown field "afuID"`},
		{name: "long unknown field", raw: head + `,"` + strings.Repeat("é", 3000) + `":1}`, want: `found unknown field "éé`},
		{name: "many unknown fields", raw: head + manyFields + `}`, want: `found unknown field "a0"`, other: "found 1002 fields, want an object with the fields apiVersion, kind and afuId"},
		{name: "all f", raw: head + `,"afuId":"` + strings.Repeat("F", 32) + `"}`, want: "want an id that is not all f"},
		{name: "all f with dashes", raw: head + `,"afuId":"ffffffff-FFFF-ffff-ffff-ffffffffffff"}`, want: "want an id that is not all f"},
		{name: "a flag", raw: head + `,"afuId":"--store=/tmp"}`, want: `afuId: found "--store=/tmp", want 32`},
		{name: "twice", raw: head + `,"afuId":"` + afu + `","afuId":"` + afu + `"}`, want: `found duplicate field "afuId"`, other: created},
		{name: "more data", raw: whole + "{}", want: "found invalid character '{' after top-level value", other: "invalid character"},
		{name: "large", raw: strings.Replace(whole, "{", "{"+strings.Repeat(" ", 10*1024), 1), want: "bytes, want at most 10240", other: "may not be more than 10240 bytes"},
	}
}()

// configCase is the text of a configuration, and what the errors for it have.
type configCase struct {
	name, raw string
	want      string // ParseConfig; "": it accepts the text
	other     string // the API server, if it differs; created: it accepts the text
}

const (
	created   = "created"
	notString = "found a field that is not a string, want strings in apiVersion, kind and afuId"
)

// manyFields are as many fields as a configuration can have.
var manyFields = func() string {
	var fields strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&fields, `,"a%d":1`, i)
	}
	return fields.String()
}()

func TestParseConfig(t *testing.T) {
	for _, tc := range configs {
		got, err := claims.ParseConfig([]byte(tc.raw))
		if tc.want == "" {
			if want := (claims.AcceleratorConfig{APIVersion: claims.ConfigAPIVersion, Kind: claims.ConfigKind, AFUID: afu}); err != nil || got != want {
				t.Errorf("%s: found %+v, %v, want %+v", tc.name, got, err, want)
			}
		} else if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 400 {
			t.Errorf("%s: error %v, want one with %s", tc.name, err, tc.want)
		}
	}
}

// For any text: if it is a valid configuration, its AFU is returned in the form of the inventory, and can be written
// and parsed again. The text of an error has a limited length.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"accelerator.b-com.com/v1alpha1","kind":"AcceleratorConfig","afuId":"D8424DC4-A4A3-C413-F89E-433683F9040B"}`))
	f.Add([]byte(`{"afuId":"` + afu + `","afuId":"` + afu + `"} {}`))
	f.Add([]byte(`{"AFUID":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := claims.ParseConfig(raw)
		if err != nil {
			if len(err.Error()) > 600 {
				t.Errorf("error of %d bytes: %v", len(err.Error()), err)
			}
			return
		}
		if len(c.AFUID) != 32 || strings.Trim(c.AFUID, "0123456789abcdef") != "" {
			t.Errorf("AFU: found %q, want 32 lower-case hexadecimal digits", c.AFUID)
		}
		again, err := claims.ParseConfig(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"afuId":%q}`, c.APIVersion, c.Kind, c.AFUID))
		if err != nil || again != c {
			t.Errorf("parsed again: %+v, %v, want %+v", again, err, c)
		}
	})
}

func TestParse(t *testing.T) {
	replace := func(pairs ...string) string {
		text := strings.NewReplacer(pairs...).Replace(good)
		if text == good {
			t.Fatalf("%q changes nothing", pairs)
		}
		return text
	}
	claim := good[strings.Index(good, `{"uid"`):strings.LastIndex(good, `]}`)]
	device := good[strings.Index(good, `{"request"`):strings.LastIndex(good, `]}]}`)]
	for _, tc := range []struct{ name, text, want string }{
		{"good", good, ""},
		{"empty", "", "found unexpected end of JSON input, want the claims of the driver"},
		{"no claims", `{"version": 1}`, ""},
		{"waiting for the device of another claim", replace(claim, claim+`,`+strings.NewReplacer("uid-one", "b", `"devices"`, `"waiting": true, "devices"`).Replace(claim)), ""},
		{"admin access", replace(claim, claim+`,`+strings.NewReplacer("uid-one", "b", `"nodes"`, `"adminAccess": true, "nodes"`).Replace(claim)), ""},
		{"a node in two claims", replace(claim, claim+`,`+strings.NewReplacer("uid-one", "b", "3b", "5e").Replace(claim)), ""},
		{"nodes that came later", replace(`"dfl-port.0"`, `"dfl-port.0", "240:0", "", "dfl-port.4"`), ""},
		{"a device twice", replace(claim, claim+`,`+strings.ReplaceAll(claim, "uid-one", "b")),
			"claims[1].devices[0]: found pci-0000-3b-00-0, want a device that is not in claims[0]"},
		{"a device twice in a claim", replace(device, device+`,`+strings.Replace(device, `"a"`, `"b"`, 1)), "claims[0].devices[1]: found pci-0000-3b-00-0, want a device"},
		{"a device twice in a request", replace(device, device+`,`+device), "claims[0].devices[1]: found pci-0000-3b-00-0 a second time in request a, want"},
		{"a claim twice", replace(claim, claim+`,`+strings.ReplaceAll(claim, "3b", "5e")), "claims[1].uid: found that of claims[0], want another"},
		{"uid", replace("uid-one", "uid one"), `claims[0].uid: found "uid one", want a UUID`},
		{"namespace", replace("default", "a.b"), `claims[0].namespace: found "a.b", want a DNS label`},
		{"name", replace(`"one"`, `"a\n"`), `claims[0].name: found "a\n", want a DNS name`},
		{"request", replace(`"a"`, `"A"`), `claims[0].devices[0].request: found "A", want`},
		{"device", replace("pci-0000-3b-00-0", "3b:00.0"), `claims[0].devices[0].device: found "3b:00.0", want`},
		{"no devices", replace(device, ""), "claims[0].devices: found 0, want 1 to 32"},
		{"too many devices", replace(device, device+strings.Repeat(","+device, 32)), "claims[0].devices: found 33, want 1 to 32"},
		{"version as text", replace("1,", `"1",`), "found json: cannot unmarshal string"},
		{"version twice", replace(`"version": 1`, `"version": 1, "version": 1`), `duplicate field "version"`},
		{"field in capitals", replace("devices", "Devices"), `unknown field "claims[0].Devices"`},
		{"wanted AFU", replace(`"nodes"`, `"wantedAfuId": "`+afu+`", "nodes"`), ""},
		{"wanted AFU in capitals", replace(`"nodes"`, `"wantedAfuId": "`+strings.ToUpper(afu)+`", "nodes"`), `claims[0].devices[0].wantedAfuId: found "D8424DC4`},
		{"wanted AFU that is a flag", replace(`"nodes"`, `"wantedAfuId": "--store=/tmp", "nodes"`), `wantedAfuId: found "--store=/tmp", want 32`},
		{"newer version", replace(`"version": 1`, `"version": 3`), "version: found 3, want 1 to 2"},
		{"no version", replace(`"version": 1,`, ""), "version: found 0, want 1 to 2"},
		{"more data", good + "1", "after top-level value"},
	} {
		_, err := claims.Held([]byte(tc.text))
		compare.Outcome(t, tc.name, tc.want, err)
	}
}

// For any text of the file, either there is an error, or no device has two owners. A file that is written again
// contains the same claims, and has the same text the next time.
func FuzzParse(f *testing.F) {
	whole := must.Value(os.ReadFile("testdata/claims.json"))(f)
	f.Add(whole)
	f.Add([]byte(good))
	f.Add([]byte(strings.Replace(good, `"devices"`, `"waiting": true, "devices"`, 1)))
	f.Add([]byte(strings.ReplaceAll(good, "dfl-port.0", "\\u2028<>\\ud800\xff")))
	f.Add([]byte(strings.Replace(good, `"nodes"`, `"wantedAfuId": "`+afu+`", "nodes"`, 1)))
	f.Add([]byte(strings.Replace(good, `"dfl-port.0"`, `"dfl-port.0", "", "dfl-port.4", ""`, 1)))
	f.Add([]byte(`{"version": 1}`))
	f.Add([]byte(`{"version": 1e0, "claims": [null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, claims.FileName)
		rewrite := func(text []byte) []byte {
			parsing, writing := claims.Rewrite(dir, text)
			if parsing != nil {
				if len(parsing.Error()) > 600 {
					t.Errorf("error of %d bytes: %v", len(parsing.Error()), parsing)
				}
				return nil
			}
			if writing != nil {
				t.Fatalf("claims that were parsed cannot be written: %v", writing)
			}
			return []byte(readFile(t, path))
		}
		once := rewrite(text)
		if once == nil {
			compare.Error(t, "file", "", compare.ErrorOf(os.Lstat(path)))
			return
		}
		ids := must.Value(claims.Held(text))(t)
		slices.Sort(ids)
		compare.Equal(t, fmt.Sprintf("devices %q", ids), len(ids), len(slices.Compact(slices.Clone(ids))))
		if len(once) == 0 {
			return // no claims
		}
		compare.Equal(t, "written again", string(once), string(rewrite(once)))
	})
}
