package hook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/programming/fpga"
	"b-com.com/accelerator-device-plugin/programming/hook"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	first  = "0000:3b:00.0"
	second = "0000:5e:00.0"
	self   = "/opt/accelerator-fpga"
)

// host is a simulated node with two cards that have the same interface and bits.AFU, and a store with a bitstream for
// OtherAFU.
type host struct {
	t          *testing.T
	dir        string
	node       *simnode.Node
	store      programming.Store
	programmed []string // what hooks have programmed, in order
}

func newHost(t *testing.T) *host {
	t.Helper()
	dir := t.TempDir()
	node, err := simnode.New(dir)
	must.Succeed(t, errors.Join(err, os.Chmod(dir, 0o755))) // independent of the umask
	for _, address := range []string{first, second} {
		card := simnode.Card{Address: address, Ports: 1, AFUID: bits.AFU, InterfaceID: bits.Interface, NUMANode: -1}
		must.Succeed(t, node.Plug(card))
	}
	h := &host{t: t, dir: dir, node: node, store: programming.Store(filepath.Join(dir, "store"))}
	h.install(bits.OtherAFU+".gbs", bits.GBS(bits.Metadata(bits.Interface, bits.OtherAFU), make([]byte, 4096)))
	return h
}

// install puts a file into the store.
func (h *host) install(name string, data []byte) {
	h.t.Helper()
	h.write(filepath.Join(string(h.store), bits.Interface, name), data)
}

func (h *host) write(path string, data []byte) {
	h.t.Helper()
	must.Succeed(h.t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644))
}

func (h *host) program(_ context.Context, card fpga.Card, port fpga.Port, b *programming.Bitstream) error {
	h.programmed = append(h.programmed, fmt.Sprintf("%s %d %s", card.ID(), port.Number, b.ID()))
	return h.node.Reprogram(card.Address, port.Number, b.AFUID)
}

// hook returns a hook with these flags, and a func that returns its log lines without time and level.
func (h *host) hook(flags hook.Flags) (_ *hook.Hook, lines func() []string) {
	core, logs := eventtest.Observed(h.t)
	return &hook.Hook{
			Flags: flags, Self: self, Parse: parse, Host: fpga.Host{Sys: h.node.Sys, Dev: h.node.Dev}, Store: h.store, Program: h.program, Log: zap.New(core),
		}, func() (all []string) {
			for _, l := range logs.All() {
				fields := l.ContextMap()
				words := []string{l.Level.String(), fmt.Sprint(fields["event"])}
				for _, key := range []string{"device", "afu", "interface", "path", "container"} {
					if fields[key] != nil {
						words = append(words, key+"="+strings.TrimPrefix(fmt.Sprint(fields[key]), string(h.store)))
					}
				}
				all = append(all, strings.Join(words, " "))
			}
			return all
		}
}

// parse parses the --device and --afu flags of a hook entry.
func parse(args []string) (f hook.Flags, err error) {
	for i := 2; i < len(args); i += 2 {
		switch {
		case i+1 == len(args):
			return f, fmt.Errorf("flag needs an argument: %s", args[i])
		case args[i] == "--device":
			f.Devices = append(f.Devices, args[i+1])
		case args[i] == "--afu":
			f.AFU = args[i+1]
		default:
			return f, fmt.Errorf("unknown flag: %s", args[i])
		}
	}
	return f, nil
}

// container returns a configuration with this environment, these device paths and these hook entries.
func container(env []string, devices []string, entries ...object) object {
	var list []object
	for _, d := range devices {
		list = append(list, object{"path": d, "type": "c", "major": 245, "minor": 0})
	}
	return object{
		"ociVersion": "1.1.0", "process": object{"env": env, "args": []string{"sh"}},
		"linux": object{"devices": list}, "hooks": object{"createRuntime": entries},
	}
}

// entry is a hook entry as the daemon's CDI spec adds it.
func entry(path string, args ...string) object {
	return object{"path": path, "args": append([]string{"accelerator-fpga", "hook"}, args...), "timeout": 110}
}

func pairEnv(number int, afu string) []string {
	return []string{fmt.Sprintf("FPGA_REGION_%d=%s", number, bits.Interface), fmt.Sprintf("FPGA_AFU_%d=%s", number, afu)}
}

// bundle writes a bundle with this configuration and returns the state that the runtime passes on stdin.
func (h *host) bundle(config any) io.Reader {
	h.t.Helper()
	text, ok := config.(string)
	if !ok {
		data := must.Value(json.Marshal(config))(h.t)
		text = string(data)
	}
	dir := h.t.TempDir()
	h.write(filepath.Join(dir, "config.json"), []byte(text))
	return strings.NewReader(fmt.Sprintf(`{"ociVersion":"1.1.0","id":"c1","status":"creating","pid":7,"bundle":%q}`, dir))
}

// run runs the hook with a --device flag for each element of own.
func (h *host) run(config any, own ...string) (lines []string, err error) {
	h.t.Helper()
	k, logged := h.hook(hook.Flags{Devices: own})
	err = k.Run(h.t.Context(), h.bundle(config))
	return logged(), err
}

func (h *host) afus() string {
	var all []string
	for _, address := range []string{first, second} {
		text := must.Value(os.ReadFile(filepath.Join(h.node.PortDir(address, 0), "afu_id")))(h.t)
		all = append(all, map[string]string{bits.AFU: "A", bits.OtherAFU: "B", bits.OpenCL: "CL"}[strings.TrimSpace(string(text))])
	}
	return strings.Join(all, " ")
}

func without(config object, keys ...string) object {
	delete(config[keys[0]].(object), keys[1])
	return config
}

// TestRun covers configurations that also work with Intel's hook, and failures.
func TestRun(t *testing.T) {
	port0, port1 := []string{"/dev/null", "/dev/dfl-port.0"}, []string{"/dev/dfl-port.1"}
	both := slices.Concat(port0, port1)
	want, have := pairEnv(1, bits.OtherAFU), pairEnv(1, bits.AFU)
	one, two := entry(self, "--device", "3b:00.0"), entry(self, "--device", "5e:00.0")
	usual := newHost(t) // shared, because creating one is slow on a slow disk
	for _, test := range []struct {
		name    string
		prepare func(*host) // if set, the row gets its own host
		config  any
		own     string // --device
		err     string
		afus    string // afterwards
	}{
		{"programmed", nil, container(want, port0), "", "", "B A"},
		{"loaded already", func(h *host) { h.store = "/none" }, container(have, port0), "", "", "A A"},
		{"two pairs of one region", nil, container(append(want, pairEnv(2, bits.OtherAFU)...), both), "", "", "B B"},
		{"a loaded pair does not end the run", nil, container(append(have, pairEnv(2, bits.OtherAFU)...), both), "", "", "A B"},

		{"entry names a card, a privileged container has all", nil, container(want, both, two), "5e:00.0", "", "A B"},
		{"entries name two cards, this one is of the second", nil, container(append(want, pairEnv(2, bits.OtherAFU)...), nil, one, two), "5e:00.0", "", "A B"},
		{"entry of a card that no pair wants", nil, container(want, both, one, two), "5e:00.0", "", "A A"},
		{"entry of another hook", nil, container(want, port1, entry("/opt/other", "--device", "3b:00.0")), "", "", "A B"},
		{"entry for an AFU of its own", nil, container(want, both, entry(self, "--device", "3b:00.0", "--afu", bits.AFU), two), "5e:00.0", "", "A B"},
		{"config.json has another path", nil, container(want, both, entry("/opt/wrapper")), "5e:00.0", "", "A B"},
		{"name of the FME", nil, container(want, nil, entry(self, "--device", "dfl-fme.1")), "dfl-fme.1", "", "A B"},
		{"no linux.devices, but entries", nil, without(container(want, nil, one), "linux", "devices"), "3b:00.0", "", "B A"},

		{"config broken", nil, `{"process":`, "", "config.json: not the JSON of the OCI runtime specification: ", "A A"},
		{"no process", nil, `{"linux":{"devices":[{"path":"/dev/dfl-port.0"}]}}`, "", "config.json: process.env: found none, want", "A A"},
		{"no devices", nil, without(container(want, port0), "linux", "devices"), "", "config.json: linux.devices: found none, want", "A A"},
		{"no pair", nil, container([]string{"PATH=/bin"}, port0, one), "3b:00.0", "config.json: the container has no FPGA_REGION_n and FPGA_AFU_n", "A A"},
		{"no FPGA device", nil, container(want, []string{"/dev/null", "/dev/dfl-fme.0", "/mnt/dfl-port.0"}), "", "the container has no FPGA port", "A A"},
		{"a pair more than cards", nil, container(append(want, pairEnv(2, bits.AFU)...), port0), "", "FPGA_REGION_1, FPGA_AFU_1: no card is left for interface", "A A"},
		{"no card of the interface", nil, container([]string{"FPGA_REGION_1=69528db6eb31577a8c3668f9faa081f6", "FPGA_AFU_1=" + bits.AFU}, both), "", "the container has 3b:00.0 (interface " + bits.Interface + "), 5e:00.0", "A A"},
		{"no bitstream", nil, container(pairEnv(1, "69528db6eb31577a8c3668f9faa081f6"), port0), "", "FPGA_REGION_1, FPGA_AFU_1: card 3b:00.0: no bitstream for interface " + bits.Interface, "A A"},
		{"no store", func(h *host) { h.store = "/none" }, container(want, port0), "", "bitstream for interface ", "A A"},
		{"bitstream for another interface", func(h *host) {
			h.install(bits.OtherAFU+".gbs", bits.GBS(bits.Metadata("69528db6eb31577a8c3668f9faa081f6", bits.OtherAFU), make([]byte, 64)))
		}, container(want, port0), "", "for interface 69528db6eb31577a8c3668f9faa081f6, want", "A A"},
		{"store writable by others", func(h *host) {
			must.Succeed(h.t, os.Chmod(string(h.store), 0o777))
		}, container(want, port0), "", "found mode 0777, want it not writable by group and others", "A A"},
		{"the node of another card", nil, container(want, port0, two), "5e:00.0", "FPGA_REGION_1, FPGA_AFU_1: card 5e:00.0: the CDI spec is outdated, so the container has /dev/dfl-port.0 instead of dfl-port.1: ", "A A"},
		{"no such card", nil, container(want, port0, entry(self, "--device", "af:00.0")), "af:00.0", `device "af:00.0": found no FPGA card of this name, want one of 3b:00.0, 5e:00.0`, "A A"},
		{"card is not bound", func(h *host) {
			must.Succeed(h.t, h.node.Unbind(first, 0))
		}, container(want, both, two, one), "3b:00.0", "card 3b:00.0 has no port with a driver", ""},
		{"entry of a later version", nil, container(want, port0, entry(self, "--device", "3b:00.0", "--later", "1")), "3b:00.0", "hooks.createRuntime[0].args: unknown flag: --later", "A A"},
		{"text of the pod", nil, container([]string{"FPGA_REGION_1=\x1b[31m\nx\u202e", "FPGA_AFU_1=1"}, port0), "", `FPGA_REGION_1: found "\x1b[31m\nx\u202e"`, "A A"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := usual
			if test.prepare != nil {
				h = newHost(t)
				test.prepare(h)
			}
			h.t, h.programmed = t, nil
			for _, address := range []string{first, second} {
				must.Succeed(t, h.node.Reprogram(address, 0, bits.AFU))
			}
			var own []string
			if test.own != "" {
				own = []string{test.own}
			}
			lines, err := h.run(test.config, own...)
			if (test.err == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), test.err) || strings.ContainsAny(err.Error(), "\n\x1b\u202e")) {
				t.Errorf("error %v, want %q in it, on one line", err, test.err)
			}
			if test.afus != "" {
				compare.Equal(t, "cards hold", test.afus, h.afus())
			}
			if err != nil && (len(lines) != 1 || !strings.HasPrefix(lines[0], "error programming.failed ")) {
				t.Errorf("log %q, want one line of the failure", lines)
			}
		})
	}
}

// An entry's path may be a link to the hook. It can also lead to a different file than the one that's running, if the
// hook was replaced after it started.
func TestSelf(t *testing.T) {
	h := newHost(t)
	program, link := filepath.Join(h.dir, "v2"), filepath.Join(h.dir, "link")
	h.write(program, nil)
	must.Succeed(t, os.Symlink("v2", link))
	for _, path := range []string{program, link, filepath.Join(h.dir, "removed")} {
		k, _ := h.hook(hook.Flags{})
		if k.Self = program; path != link {
			k.Self = path
		}
		err := k.Run(t.Context(), h.bundle(container(pairEnv(1, bits.OtherAFU), []string{"/dev/dfl-port.0", "/dev/dfl-port.1"}, entry(path, "--device", "5e:00.0"))))
		if err != nil || h.afus() != "A B" {
			t.Errorf("%s: %v, cards hold %s, want that of the entry programmed", path, err, h.afus())
		}
	}
}

// A port name selects that port. A card with two ports gets one AFU.
func TestPorts(t *testing.T) {
	for _, test := range []struct {
		names []string
		want  string
	}{
		{[]string{"af:00.0"}, "af:00.0 0 "},
		{[]string{"af:00.0-p1"}, "af:00.0 1 "},
		{[]string{"/dev/dfl-port.3", "af:00.0-p0"}, "af:00.0 0 "},
	} {
		h := newHost(t)
		must.Succeed(t, h.node.Plug(simnode.Card{Address: "0000:af:00.0", Ports: 2, AFUID: bits.AFU, InterfaceID: bits.Interface, NUMANode: -1}))
		if _, err := h.run(container(pairEnv(1, bits.OtherAFU), nil), test.names...); err != nil || !slices.Equal(h.programmed, []string{test.want + bits.OtherAFU}) {
			t.Errorf("%q: %v, programmed %q, want %s", test.names, err, h.programmed, test.want)
		}
	}
}

// TestEntries checks what is logged for a container with two cards, whose entries run one after the other, and for its
// restart.
func TestEntries(t *testing.T) {
	h := newHost(t)
	config := container(append(pairEnv(1, bits.OtherAFU), pairEnv(2, bits.AFU)...), nil,
		entry(self, "--device", "5e:00.0"), entry(self, "--device", "3b:00.0"))
	ids := func(afu string) string { return " afu=" + afu + " interface=" + bits.Interface }
	for _, step := range []struct {
		own  string
		want []string
	}{
		// The first entry's card already has A, which the second pair requests.
		{"5e:00.0", []string{"info programming.present device=5e:00.0" + ids(bits.AFU) + " container=c1"}},
		{"3b:00.0", []string{"info programming.done device=3b:00.0" + ids(bits.OtherAFU) + " path=/" + bits.Interface + "/" + bits.OtherAFU + ".gbs container=c1"}},
		{"5e:00.0", []string{"info programming.present device=5e:00.0" + ids(bits.AFU) + " container=c1"}},
		{"3b:00.0", []string{"info programming.present device=3b:00.0" + ids(bits.OtherAFU) + " container=c1"}},
	} {
		lines, err := h.run(config, step.own)
		compare.NoError(t, step.own+": log", err)
		compare.Values(t, step.own+": log", step.want, lines)
	}
	compare.Values(t, "programmed", []string{"3b:00.0 0 " + bits.OtherAFU}, h.programmed)
}

// An AOCX is selected by its hash and programmed every time.
func TestAOCX(t *testing.T) {
	h := newHost(t)
	h.install(bits.Hash+".aocx", bits.AOCX(bits.Hash, "pac_a10", bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), make([]byte, 4096))))
	for range 2 {
		must.Value(h.run(container(pairEnv(1, bits.Hash), []string{"/dev/dfl-port.0"})))(t)
	}
	if want := []string{"3b:00.0 0 " + bits.Hash, "3b:00.0 0 " + bits.Hash}; !slices.Equal(h.programmed, want) || h.afus() != "CL A" {
		t.Errorf("programmed %q, cards hold %s", h.programmed, h.afus())
	}
}

// The ID that a card reports comes from the bitstream that's loaded, so Always programs the card with the store's file
// anyway.
func TestAlways(t *testing.T) {
	h := newHost(t)
	h.install(bits.AFU+".gbs", bits.GBS(bits.Metadata(bits.Interface, bits.AFU), make([]byte, 4096)))
	for always, want := range map[bool][]string{false: nil, true: {"3b:00.0 0 " + bits.AFU}} {
		k, _ := h.hook(hook.Flags{Devices: []string{"3b:00.0"}})
		k.Always, h.programmed = always, nil
		compare.NoError(t, fmt.Sprintf("always %t", always), k.Run(t.Context(), h.bundle(container(pairEnv(1, bits.AFU), []string{"/dev/dfl-port.0"}))))
		compare.Values(t, fmt.Sprintf("always %t: programmed", always), want, h.programmed)
	}
}

// With --afu, the environment is ignored. A container that has another card's port is rejected.
func TestAFU(t *testing.T) {
	h := newHost(t)
	k, lines := h.hook(hook.Flags{Devices: []string{"5e:00.0", "0000:5e:00.0"}, AFU: strings.ToUpper(bits.OtherAFU)})
	if err := k.Run(t.Context(), h.bundle("no JSON")); err != nil || h.afus() != "A B" || len(lines()) != 1 {
		t.Errorf("%v, cards hold %s, log %q", err, h.afus(), lines())
	}
	for _, port := range []string{"/dev/dfl-port.0", "/dev/dfl-port.1"} {
		h := newHost(t)
		k, _ := h.hook(hook.Flags{Devices: []string{"5e:00.0"}, AFU: bits.OtherAFU})
		env := []string{"FPGA_REGION_1=../..", "FPGA_AFU_1=" + bits.AFU, "FPGA_AFU_2=x", "ACCELERATOR_STORE=/tmp"}
		err := k.Run(t.Context(), h.bundle(container(env, []string{port})))
		if port == "/dev/dfl-port.1" && (err != nil || h.afus() != "A B") {
			t.Errorf("%v, cards hold %s, want the second one programmed", err, h.afus())
		} else if port == "/dev/dfl-port.0" && (err == nil || !strings.Contains(err.Error(), "card 5e:00.0: the CDI spec is outdated, so the container has /dev/dfl-port.0 instead of dfl-port.1") || h.afus() != "A A") {
			t.Errorf("%v, cards hold %s, want the port refused", err, h.afus())
		}
	}
	for afu, want := range map[string]string{
		"../../x":               `--afu: found "../../x", want the 32 hex digits`,
		strings.Repeat("f", 32): `--afu: found "ffffffffffffffffffffffffffffffff", want an id that is not all f`,
		bits.Interface:          "--afu: card 5e:00.0: no bitstream for interface",
	} {
		k, _ := h.hook(hook.Flags{Devices: []string{"5e:00.0"}, AFU: afu})
		compare.Error(t, "--afu "+afu, want, k.Run(t.Context(), h.bundle("no JSON")))
	}
}

// With --afu, every selected port gets the AFU, even if two of them are on the same card.
func TestAFUOfPorts(t *testing.T) {
	h := newHost(t)
	must.Succeed(t, h.node.Plug(simnode.Card{Address: "0000:af:00.0", Ports: 2, AFUID: bits.AFU, InterfaceID: bits.Interface, NUMANode: -1}))
	k, lines := h.hook(hook.Flags{Devices: []string{"af:00.0-p1", "af:00.0-p0", "dfl-port.3"}, AFU: bits.OtherAFU})
	err := k.Run(t.Context(), h.bundle("no JSON"))
	want := []string{"af:00.0 1 " + bits.OtherAFU, "af:00.0 0 " + bits.OtherAFU}
	compare.NoError(t, "programmed", err)
	compare.Values(t, "programmed", want, h.programmed)
	// The log uses the same device IDs as the daemon.
	rest := " afu=" + bits.OtherAFU + " interface=" + bits.Interface + " path=/" + bits.Interface + "/" + bits.OtherAFU + ".gbs container=c1"
	want = []string{"info programming.done device=af:00.0-p1" + rest, "info programming.done device=af:00.0" + rest}
	compare.Values(t, "log", want, lines())
	for name, want := range map[string]string{"af:00.0-p0": "af:00.0", "af:00.0-p1": "af:00.0-p1", "af:00.0": "af:00.0"} {
		k, lines := h.hook(hook.Flags{Devices: []string{name}, AFU: bits.Interface})
		if err := k.Run(t.Context(), h.bundle("no JSON")); err == nil || len(lines()) != 1 || !strings.HasPrefix(lines()[0], "error programming.failed device="+want+" afu=") {
			t.Errorf("no bitstream for %s: %v, log %q, want it for %s", name, err, lines(), want)
		}
	}
	must.Succeed(t, h.node.Unplug("0000:af:00.0"))
	k, lines = h.hook(hook.Flags{Devices: []string{"af:00.0-p0"}, AFU: bits.OtherAFU})
	if err := k.Run(t.Context(), h.bundle("no JSON")); err == nil || len(lines()) != 1 || lines()[0] != "error programming.failed device=af:00.0 container=c1" {
		t.Errorf("card that has left: %v, log %q", err, lines())
	}
}

// If programming fails, the hook returns and logs the error.
func TestProgrammingFails(t *testing.T) {
	h := newHost(t)
	k, lines := h.hook(hook.Flags{})
	k.Program = func(context.Context, fpga.Card, fpga.Port, *programming.Bitstream) error {
		return errors.New("card 3b:00.0: still has AFU A,\nwant B")
	}
	err := k.Run(t.Context(), h.bundle(container(pairEnv(1, bits.OtherAFU), []string{"/dev/dfl-port.0"})))
	if err == nil || err.Error() != "FPGA_REGION_1, FPGA_AFU_1: card 3b:00.0: still has AFU A,; want B" {
		t.Errorf("error %v", err)
	}
	want := []string{"error programming.failed device=3b:00.0 afu=" + bits.OtherAFU + " interface=" + bits.Interface +
		" path=/" + bits.Interface + "/" + bits.OtherAFU + ".gbs container=c1"}
	compare.Values(t, "log", want, lines())
}

// If another hook has loaded the AFU in the meantime, it's logged as present.
func TestLoadedMeanwhile(t *testing.T) {
	h := newHost(t)
	k, lines := h.hook(hook.Flags{})
	k.Program = func(context.Context, fpga.Card, fpga.Port, *programming.Bitstream) error {
		return fmt.Errorf("card 3b:00.0, port 0: %w", fpga.ErrLoaded)
	}
	must.Succeed(t, k.Run(t.Context(), h.bundle(container(pairEnv(1, bits.OtherAFU), []string{"/dev/dfl-port.0"}))))
	want := []string{"info programming.present device=3b:00.0 afu=" + bits.OtherAFU + " interface=" + bits.Interface + " container=c1"}
	compare.Values(t, "log", want, lines())
}

// If a card is removed while another one is being programmed, the error contains the removed card's ID.
func TestCardLeaves(t *testing.T) {
	h := newHost(t)
	config := container(append(pairEnv(1, bits.OtherAFU), pairEnv(2, bits.OtherAFU)...), nil,
		entry(self, "--device", "3b:00.0"), entry(self, "--device", "5e:00.0"))
	must.Value(h.run(config, "3b:00.0"))(t)
	must.Succeed(t, h.node.Unplug(second))
	compare.Error(t, "run", `device "5e:00.0": found no FPGA card of this name, want one of 3b:00.0`, compare.ErrorOf(h.run(config, "5e:00.0")))
	compare.Equal(t, fmt.Sprintf("images of %q", h.programmed), 1, len(h.programmed))
}

// TestOPAE uses the opae driver's port names, on a recorded board.
func TestOPAE(t *testing.T) {
	h := newHost(t)
	root := t.TempDir()
	must.Succeed(t, board.Unfold(root, "../../testdata/sysfs/opae-one-card.txtar"))
	k, lines := h.hook(hook.Flags{})
	k.Host = fpga.Host{Sys: root + "/sys", Dev: root + "/dev"}
	env := []string{"FPGA_REGION_1=A1B2C3D4-E5F60718293A4B5C6D7E8F90", "FPGA_AFU_1=00112233445566778899AABBCCDDEEFF"}
	if err := k.Run(t.Context(), h.bundle(container(env, []string{"/dev/intel-fpga-port.0"}))); err != nil || len(lines()) != 1 || !strings.Contains(lines()[0], "programming.present device=82:00.0") {
		t.Errorf("%v, log %q", err, lines())
	}
}

// A deadline or a signal ends the hook at any step. The error includes the reason.
func TestEnds(t *testing.T) {
	reason := errors.New("not done after 90s")
	bubble.Run(t, "a runtime that does not write", func(t *testing.T) {
		k := hook.Hook{Log: eventtest.Log(t)}
		stdin, runtime := io.Pipe()
		defer runtime.Close()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 90*time.Second, reason)
		defer cancel()
		begin := time.Now()
		err := k.Run(ctx, stdin)
		if err == nil || err.Error() != "OCI state on stdin: no answer: not done after 90s" || time.Since(begin) != 91*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
	h := newHost(t)
	for _, test := range []struct {
		name    string
		program func(ctx context.Context, blocked chan struct{}) error
		want    string
	}{
		{"programming ends with ctx", func(ctx context.Context, _ chan struct{}) error {
			<-ctx.Done()
			return fmt.Errorf("card 3b:00.0 may be half programmed: %w", context.Cause(ctx))
		}, "FPGA_REGION_1, FPGA_AFU_1: card 3b:00.0 may be half programmed: not done after 90s"},
		{"programming does not", func(_ context.Context, blocked chan struct{}) error {
			<-blocked
			return nil
		}, "FPGA_REGION_1, FPGA_AFU_1: no answer: not done after 90s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdin := h.bundle(container(pairEnv(1, bits.OtherAFU), []string{"/dev/dfl-port.0"}))
			synctest.Test(t, func(t *testing.T) {
				k, _ := h.hook(hook.Flags{})
				blocked := make(chan struct{})
				defer close(blocked)
				k.Program = func(ctx context.Context, _ fpga.Card, _ fpga.Port, _ *programming.Bitstream) error {
					return test.program(ctx, blocked)
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), 90*time.Second, reason)
				defer cancel()
				compare.Equal(t, "error", test.want, fmt.Sprint(k.Run(ctx, stdin)))
			})
		})
	}
}

type object map[string]any

// configOf returns a configuration with this environment.
func configOf(env []string) (c hook.Config) {
	text, err := json.Marshal(object{"process": object{"env": env}})
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic(err)
	}
	return c
}
