package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

const good = `{"version":1,"cards":[{"card":"3b:00.0","pciId":"8086:09c4:8086:0000","firstSeen":"2026-11-20T03:12:00Z","lastSeen":"2026-11-22T10:22:00Z","expected":true,"healthChanges":2,"failures":1,"removals":1,"lastRemoved":"2026-11-21T10:22:00Z",` +
	`"recent":[{"time":"2026-11-22T10:21:00Z","device":"3b:00.0-p1","from":"healthy","to":"unhealthy","reason":"port-ap6","ofCard":true}],` +
	`"former":{"card":"3b:00.0","firstSeen":"2025-11-20T03:12:00Z","lastSeen":"2025-11-22T10:22:00Z","expected":false,"healthChanges":7,"failures":3,"removals":1},` +
	`"devices":{"3b:00.0-p1":{"turns":["2026-11-22T10:21:00Z"],"quarantined":true,"holds":[{"reason":"port-ap6","health":2,"since":"2026-11-22T10:21:00Z"},{"reason":"resetting","health":2,"passing":"2026-11-22T10:20:00Z"}]}}}]}`

// If the file can't be used, it is set aside, and only the history is lost.
func TestBadFile(t *testing.T) {
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for _, tc := range []struct {
		name string
		make func(path string) error
		want string // substring of the error
	}{
		{"cut", write(good[:100]), "cards.json: unexpected EOF"},
		{"empty", write(""), "cards.json: EOF"},
		{"later version", write(`{"version":2,"cards":{}}`), "cards.json: version: found 2, want 1"},
		{"unknown key", write(strings.Replace(good, "removals", "removed", 1)), `unknown field "removed"`},
		{"text behind", write(good + "{}"), "found text after the JSON object"},
		{"another address", write(strings.Replace(good, `"3b:00.0-p1","from"`, `"5e:00.0","from"`, 1)), `cards[0]: device: found "5e:00.0", want 3b:00.0 or one of its ports`},
		{"control characters", write(strings.Replace(good, "port-ap6", `\u001b[31m`, 1)), `cards[0]: reason: found "\x1b[31m"`},
		{"a year that cannot be written", write(strings.Replace(good, "2026-11-22T10:22:00Z", "9999-12-31T23:59:59-01:00", 1)), "cards[0]: lastSeen: found the year 9999"},
		{"unsorted", write(strings.Replace(good, `"cards":[`, `"cards":[{"card":"5e:00.0"},`, 1)), "cards[1]: card: found 3b:00.0 after 5e:00.0"},
		{"100 MB", func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(good), 0o600), os.Truncate(path, 100<<20))
		}, "cards.json: found more than 65536 bytes"},
		{"a link", func(path string) error { return os.Symlink("/etc/passwd", path) }, "cards.json: found a file of mode L"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onNode(t, func(r *rig) {
				path := r.dir + "/cards.json"
				must.Succeed(r, tc.make(path))
				r.start(healthy("5e:00.0"))
				lines := r.logs.TakeAll()
				if len(lines) != 1 || lines[0].Level != zap.WarnLevel || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), tc.want) {
					r.Errorf("log %v, want one warning with %q", lines, tc.want)
				}
				compare.NoError(r, "the file that is set aside", compare.ErrorOf(os.Lstat(path+".bad")))
				wait(settled)
				r.expect("after", "", "")
				r.stop()
				r.expectFile(`"card":"5e:00.0"`)
			})
		})
	}
}

// A file that couldn't be read at startup is read later. Its history isn't lost, and it isn't set aside.
func TestUnreadFile(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 5 * time.Minute} { // before and after missing cards are determined
		onNode(t, func(r *rig) {
			r.start(healthy("3b:00.0"), healthy("5e:00.0"))
			r.list(broken("3b:00.0"), healthy("5e:00.0"))
			r.stop()
			r.chmod(0o777)
			r.open(inventory.Snapshot{})
			if after == 0 {
				r.chmod(0o700)
			}
			r.list(healthy("3b:00.0"))
			r.list(broken("3b:00.0"))
			wait(after)
			r.chmod(0o700)
			wait(2 * time.Minute)
			r.expect("read later", "5e:00.0", "ledger.unavailable; device.missing 5e:00.0")
			r.stop()
			r.expectFile(`"healthChanges":2`)
			compare.ErrorIs(r, "Stat", os.ErrNotExist, compare.ErrorOf(os.Stat(r.dir+"/cards.json.bad")))
		})
	}
	t.Run("without cards", func(t *testing.T) { // there is nothing to write, and all cards are missing
		onNode(t, func(r *rig) {
			r.start(healthy("3b:00.0"))
			r.stop()
			r.chmod(0o777)
			r.startAndSettle()
			r.expect("unread", "", "ledger.unavailable")
			r.chmod(0o700)
			wait(3 * time.Minute)
			r.expect("read later", "3b:00.0", "device.missing 3b:00.0")
		})
	})
}

// A card in the current format is read, including everything that is remembered about it.
func TestGoodFile(t *testing.T) {
	text, n, err := ledger.Parse([]byte(good))
	if err != nil || n != 1 || string(text) != good+"\n" {
		t.Errorf("%v, %d cards, written again:\n%s\nwant:\n%s", err, n, text, good)
	}
}

// FuzzParse checks that what was accepted is written in a form that is accepted again, within the limits.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"version":1,"cards":[]}`))
	f.Add([]byte(`{"version":1,"machine":"x","cards":[{"card":"10000:01:00.0","missing":"2026-11-22T10:22:00.5+01:00"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		written, n, err := ledger.Parse(text)
		if err != nil {
			return
		}
		again, m, err := ledger.Parse(written)
		if err != nil || m != n && len(text) < 32<<10 || len(written) > 64<<10 || string(again) != string(written) && len(text) < 32<<10 {
			t.Errorf("%v, %d cards of %d, written:\n%s\nand again:\n%s", err, m, n, written, again)
		}
	})
}

// If the daemon is killed during a write, a complete file remains, either the old one or the new one.
func TestKilled(t *testing.T) {
	dir := privatedirtest.Dir(t)
	changes, grown := -1, 0
	for i := range 40 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), writeIn+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		must.Succeed(t, err, child.Start())
		must.Value(io.ReadFull(out, make([]byte, 1+i%7)))(t) // it writes, and is killed during the next write
		must.Succeed(t, child.Process.Kill())
		_ = child.Wait() // killed
		text := must.Value(os.ReadFile(filepath.Join(dir, "cards.json")))(t)
		if _, n, err := ledger.Parse(text); err != nil || n != 1 {
			t.Fatalf("kill %d: %v, %d cards, want one:\n%s", i, err, n, text)
		}
		var now int
		if _, err := fmt.Sscanf(string(text[strings.Index(string(text), `"healthChanges":`):]), `"healthChanges":%d`, &now); err != nil || now < changes {
			t.Fatalf("kill %d: %v, %d changes, want at least the %d before", i, err, now, changes)
		}
		if now > changes {
			grown++
		}
		changes = now
	}
	if grown < 20 {
		t.Errorf("the history grew %d times in 40 runs, want it to go on", grown)
	}
}

// writeIn is an environment variable with a state directory. If it is set, the test binary keeps changing and writing a
// ledger until it is killed.
const writeIn = "LEDGER_TEST_WRITE_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writeIn); dir != "" {
		writeForEver(dir)
	}
	os.Exit(m.Run())
}

func writeForEver(dir string) {
	l := ledger.Open(context.Background(), ledger.Config{Dir: dir, Metrics: metrics.New("test")}, zap.NewNop())
	for i := uint64(1); ; i++ {
		d := healthy("3b:00.0")
		if i%2 == 0 {
			d = broken("3b:00.0")
		}
		if err := l.Step(inventory.Snapshot{Version: i, Devices: []*inventory.Device{d}, Complete: true}); err != nil {
			panic(err)
		}
		fmt.Print(".")
	}
}

// If a write finishes after its caller has given up, the file is written again, so that the error doesn't persist.
func TestLateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, m := privatedirtest.Dir(t), metrics.New("test")
		l := ledger.Open(t.Context(), ledger.Config{Dir: dir, Metrics: m}, zap.NewNop())
		late := func() bool {
			l.StoreLate(t.Context())
			synctest.Wait()
			_, err := os.Stat(dir + "/cards.json")
			return err == nil
		}
		for !late() { // it may not even start
		}
		expectStored(t, m, 0)
		r := &rig{T: t, dir: dir, ledger: l, devices: latest.New(inventory.Snapshot{})}
		r.run()
		wait(time.Minute)
		expectStored(t, m, 1)
		r.stop()
	})
}
