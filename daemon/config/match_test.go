package config_test

import (
	"slices"
	"strings"
	"testing"
)

// Invalid values of a match, and their text in the error.
func TestMatchRefusals(t *testing.T) {
	type bad struct{ yaml, found string }
	everywhere := []bad{{"''", `""`}, {"true", `"true"`}, {"1", `"1"`}, {"*alias", `"info"`}}
	none := []bad{{"", "nothing"}, {"~", "nothing"}, {"!!null 8086", "nothing"}, {"[8086]", "a list"}, {"{8086: 1}", "a mapping"}}
	for _, test := range []struct {
		name, want string
		keys       []string
		bad        []bad
	}{
		{"four digits", wantPCI, []string{"pciVendor", "pciDevice", "vendor", "device"}, []bad{
			{"0x09c4", `"0x09c4"`}, {"808", `"808"`}, {"80867", `"80867"`}, {"10", `"10"`}, {"1e+10", `"1e+10"`}, {"8086.0", `"8086.0"`}, {"8_086", `"8_086"`},
			{"-086", `"-086"`}, {"0o17", `"0o17"`}, {"09cg", `"09cg"`}, {"8086:09c4", `"8086:09c4"`}, {`" 8086"`, `" 8086"`}, {`"8086\n"`, `"8086\n"`},
			{`"８０８６"`, `"８０８６"`}, {"!!binary ODA4Ng==", `"ODA4Ng=="`}, {"Intel", `"Intel"`}, {".inf", `".inf"`}, {"2026-11-21", `"2026-11-21"`},
		}},
		{"ids", wantID, []string{"afuId", "interfaceId"}, []bad{
			{nlb[1:], `"` + nlb[1:] + `"`}, {nlb + "0", `"` + nlb + `0"`}, {"0x" + nlb[2:], `"0x` + nlb[2:] + `"`}, {"g" + nlb[1:], `"g` + nlb[1:] + `"`},
			{"d8424dc4-a4a3c413f89e433683f9040b", `"d8424dc4-a4a3c413f89e433683f9040b"`},
			{"d8424dc4-a4a3-c413-f89e433683f9040b", `"d8424dc4-a4a3-c413-f89e433683f9040b"`},
			{"d8424dc4-a4a3c413-f89e-433683f9040b", `"d8424dc4-a4a3c413-f89e-433683f9040b"`},
			{"d8424dc4a4a3-c413-f89e-433683f9040b", `"d8424dc4a4a3-c413-f89e-433683f9040b"`},
			{"d842-4dc4a4a3-c413-f89e-433683f9040b", `"d842-4dc4a4a3-c413-f89e-433683f9040b"`},
			{`"{d8424dc4-a4a3-c413-f89e-433683f9040b}"`, `"{d8424dc4-a4a3-c413-f89e-433683f9040b}"`},
			{"1e32", `"1e32"`}, {`"` + nlb + `\n"`, `"` + nlb + `\n"`}, {"8086", `"8086"`},
		}},
		{"address", wantCard, []string{"pciAddress", "physicalFunction"}, []bad{
			{"3b:00.0-p0", `"3b:00.0-p0"`}, {"3B:00.0-P1", `"3B:00.0-P1"`}, {"3b:00", `"3b:00"`}, {"3b:00.8", `"3b:00.8"`}, {"3b:00.0-", `"3b:00.0-"`},
			{"00010000:3b:00.0", `"00010000:3b:00.0"`}, {"3b.00.0", `"3b.00.0"`}, {"dfl-port.0", `"dfl-port.0"`}, {"3b:*", `"3b:*"`}, {"06:10", `"06:10"`}, {"8086", `"8086"`},
		}},
		{"subsystem", `want four hexadecimal digits, a colon and four more, in quotes, such as "8086:1771"`, []string{"subsystem"}, []bad{
			{"8086", `"8086"`}, {"8086:177", `"8086:177"`}, {"8086:17711", `"8086:17711"`}, {"8086-1771", `"8086-1771"`}, {`"8086: 1771"`, `"8086: 1771"`},
			{"0x8086:0x1771", `"0x8086:0x1771"`}, {"8086:bcce:8086:1771", `"8086:bcce:8086:1771"`}, {"8086:17g1", `"8086:17g1"`}, {`"8086:1771\n"`, `"8086:1771\n"`},
		}},
		{"family", "want one of dfl, opae, vfio", []string{"family"}, []bad{{"DFL", `"DFL"`}, {"pool", `"pool"`}, {"dfl,opae", `"dfl,opae"`}, {"' dfl'", `" dfl"`}}},
	} {
		for _, key := range test.keys {
			refused := func(bad bad, want string) {
				t.Run(key+"/"+bad.yaml, func(t *testing.T) {
					wantRefusal(t, "logLevel: &alias info\nresources:\n- name: a.com/x\n  match:\n    "+key+": "+bad.yaml+"\n",
						[]string{"5: resources.match." + key + ": found " + bad.found + ", " + want})
				})
			}
			for _, bad := range slices.Concat(everywhere, test.bad) {
				refused(bad, test.want)
			}
			for _, bad := range none {
				refused(bad, "want one value")
			}
		}
	}
}

// An index of a virtual function is a whole number of decimal digits.
func TestVirtualFunctionRefusals(t *testing.T) {
	for _, text := range []string{"-1", "65535", "1.0", "1e0", "0x1", "0o1", "1_0", "one", "''", "true", `" 1"`, "99999999999999999999"} {
		t.Run(text, func(t *testing.T) {
			wantRefusal(t, "resources:\n- name: a.com/x\n  match: {virtualFunction: "+text+"}\n", []string{
				"3: resources.match.virtualFunction: found " + `"` + strings.Trim(text, `"'`) + `", want a whole number from 0 to 65534`})
		})
	}
}

// A VBNV has at most 63 printable characters, and no spaces.
func TestVBNVRefusals(t *testing.T) {
	for _, text := range []string{"''", `"xilinx u250"`, "ü", strings.Repeat("x", 64)} {
		t.Run(text, func(t *testing.T) {
			wantRefusal(t, "resources:\n- name: a.com/x\n  match: {vbnv: "+text+"}\n", []string{
				"3: resources.match.vbnv: found " + `"` + strings.Trim(text, `"'`) + `", want the VBNV of a shell, such as xilinx_u250_gen3x16_xdma_shell_4_1`})
		})
	}
}
