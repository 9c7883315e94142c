package cordon_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
	"b-com.com/accelerator-device-plugin/test/task"
)

func open(t *testing.T, dir string) (*cordon.Book, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	book := must.Value(cordon.Open(dir, zap.New(core)))(t)
	return book, logs
}

func entries(book *cordon.Book) string {
	var all []string
	for _, c := range book.List() {
		all = append(all, c.Device+" "+c.By+" "+c.Why)
	}
	return strings.Join(all, "; ")
}

// lines returns the log lines as event, device, by, reason.
func lines(logs *observer.ObservedLogs) (all []string) {
	for _, l := range logs.TakeAll() {
		f := l.ContextMap()
		all = append(all, strings.TrimSpace(fmt.Sprint(f["event"], " ", f["device"], " ", f["by"], " ", f["reason"])))
	}
	return all
}

func TestAddAndRemove(t *testing.T) {
	dir := filepath.Join(privatedirtest.Dir(t), "made")
	book, logs := open(t, dir)
	changed := book.Changed()
	begin := time.Now().UTC().Truncate(time.Millisecond)
	made := must.Value(book.Add(t.Context(), []string{"0000:3B:00.0", "3b:00.0", "5e:00.0-P1"}, "alice", "replace the fan", 2*time.Hour))(t)
	select {
	case <-changed:
	default:
		t.Error("the channel of Changed is open")
	}
	compare.Values(t, "made and listed", book.List(), made)
	if c := made[0]; c.Since.Before(begin) || c.Until.Sub(c.Since) != 2*time.Hour {
		t.Errorf("since %s until %s, want two hours from %s", c.Since, c.Until, begin)
	}
	renewed, err := book.Add(t.Context(), []string{"3b:00.0"}, "bob", "still no fan", 0)
	if err != nil || len(renewed) != 1 || renewed[0].Since != made[0].Since || !renewed[0].Until.IsZero() {
		t.Errorf("%v, %v, want the first since and no until", renewed, err)
	}
	want := []string{
		"device.cordoned 3b:00.0 alice command", "device.cordoned 5e:00.0-p1 alice command",
		"device.cordoned 3b:00.0 bob command",
	}
	compare.Values(t, "log", want, lines(logs))

	again, logs2 := open(t, dir)
	compare.Values(t, "after a restart", book.List(), again.List())
	compare.Values(t, "log of the restart", []string{"device.cordoned 3b:00.0 bob file", "device.cordoned 5e:00.0-p1 alice file"}, lines(logs2))

	for device, want := range map[string]string{
		"3b:00.0-p1": "device: found 3b:00.0-p1, want 3b:00.0: the whole card is cordoned",
		"5e:00.0":    "device: found 5e:00.0, want one that is cordoned: 3b:00.0, 5e:00.0-p1",
		"card1":      `device: found "card1", want the PCI address of a card`,
	} {
		// If there is an error, no device is uncordoned.
		compare.Error(t, device, want, compare.ErrorOf(book.Remove(t.Context(), []string{"5e:00.0-p1", device}, "eve")))
	}
	compare.Values(t, "removed", renewed, must.Value(book.Remove(t.Context(), []string{"3b:00.0"}, "carol"))(t))
	compare.Equal(t, "left", "5e:00.0-p1 alice replace the fan", entries(book))
	compare.Values(t, "log", []string{"device.uncordoned 3b:00.0 carol command"}, lines(logs))
}

// Removing the file doesn't end any cordons. The next change writes it again.
func TestRemovedFile(t *testing.T) {
	dir := privatedirtest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		book, logs := open(t, dir)
		task.Run(t, book.RunUnwatched)
		must.Value(book.Add(t.Context(), []string{"3b:00.0"}, "alice", "fan", 0))(t)
		synctest.Wait()
		must.Succeed(t, os.Remove(filepath.Join(dir, "cordons.json")))
		logs.TakeAll()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := logs.TakeAll(); len(got) != 1 || got[0].Level != zapcore.ErrorLevel || entries(book) != "3b:00.0 alice fan" {
			t.Errorf("%v, and in the book %q", got, entries(book))
		}
		must.Value(book.Add(t.Context(), []string{"5e:00.0"}, "bob", "dust", 0))(t)
		if again, _ := open(t, dir); entries(again) != "3b:00.0 alice fan; 5e:00.0 bob dust" {
			t.Errorf("in the file: %q", entries(again))
		}
	})
}

// A cordon made before the clock was set back can be renewed.
func TestClockSetBack(t *testing.T) {
	dir := privatedirtest.Dir(t)
	text := `{"cordons": [{"device": "3b:00.0", "by": "a", "why": "w", "since": "2199-01-01T00:00:00Z"}]}`
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "cordons.json"), []byte(text), 0o600))
	book, _ := open(t, dir)
	made := must.Value(book.Add(t.Context(), []string{"3b:00.0"}, "alice", "fan", time.Hour))(t)
	compare.Equal(t, "duration from now on", time.Hour, made[0].Until.Sub(made[0].Since))
}

func TestAddRefuses(t *testing.T) {
	dir := privatedirtest.Dir(t)
	book, logs := open(t, dir)
	for _, tc := range []struct {
		name, device, by, why string
		during                time.Duration
		want                  string
	}{
		{"no device", "", "a", "w", 0, `device: found "", want the PCI address`},
		{"a path", "../3b:00.0", "a", "w", 0, `device: found "../3b:00.0", want`},
		{"no name", "3b:00.0", "", "w", 0, "by: found none"},
		{"no reason", "3b:00.0", "a", " ", 0, "why: found none"},
		{"a line feed", "3b:00.0", "a", "w\n5e:00.0 cordoned", 0, `why: found "w\n5e:00.0 cordoned", want printable`},
		{"an escape", "3b:00.0", "\x1b[31m", "w", 0, `by: found "\x1b[31m", want printable`},
		{"right to left", "3b:00.0", "a", "w\u202e", 0, "why: found"},
		{"no UTF-8", "3b:00.0", "a", "\xff", 0, "why: found"},
		{"long", "3b:00.0", "a", strings.Repeat("é", 257), 0, "why: found 257 characters, want at most 256"},
		{"long name", "3b:00.0", strings.Repeat("é", 65), "w", 0, "by: found 65 characters, want at most 64"},
		{"backwards", "3b:00.0", "a", "w", -time.Second, "for: found -1s, want a duration"},
		{"too far", "3b:00.0", "a", "w", 1<<63 - 1, ""},
	} {
		compare.Outcome(t, tc.name+": Add", tc.want, compare.ErrorOf(book.Add(t.Context(), []string{tc.device}, tc.by, tc.why, tc.during)))
	}
	compare.Error(t, "none at all", "", compare.ErrorOf(book.Add(t.Context(), nil, "a", "w", 0)))
	// The largest book that is accepted can also be read back.
	var many []string
	for i := range 256 {
		many = append(many, fmt.Sprintf("%x:%02x:00.0-p1", 0x10000000+i, i))
	}
	must.Value(book.Remove(t.Context(), []string{"3b:00.0"}, "a"))(t)
	must.Value(book.Add(t.Context(), many, strings.Repeat("€", 64), strings.Repeat("\"", 256), time.Hour))(t)
	logs.TakeAll()
	compare.Error(t, "one more", "found 257 cordons, want at most 256", compare.ErrorOf(book.Add(t.Context(), []string{"3b:00.0"}, "a", "w", 0)))
	if again, _ := open(t, dir); len(again.List()) != 256 || len(book.List()) != 256 || len(lines(logs)) != 0 {
		t.Errorf("%d in the file, %d in the book, want 256", len(again.List()), len(book.List()))
	}
}

// A failed write changes neither the file nor the book.
func TestFailedWrite(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, dir string) (mend func())
		want  string
	}{
		{"the directory is writable by all users", func(t *testing.T, dir string) func() {
			return chmod(t, dir, 0o777)
		}, "state: found mode 0777, want it not writable by group and others"},
		{"a directory in the place of the new file", func(t *testing.T, dir string) func() {
			next := filepath.Join(dir, "cordons.json.new")
			must.Succeed(t, os.MkdirAll(filepath.Join(next, "x"), 0o700))
			return func() { os.RemoveAll(next) }
		}, "cordons.json.new: "},
		{"a link in the place of the lock", func(t *testing.T, dir string) func() {
			lock := filepath.Join(dir, "cordons.lock")
			must.Succeed(t, os.Remove(lock), os.Symlink("/dev/null", lock))
			return func() { os.Remove(lock) }
		}, "cordons.lock: found a file of mode L"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := privatedirtest.Dir(t)
			book, logs := open(t, dir)
			must.Value(book.Add(t.Context(), []string{"3b:00.0"}, "alice", "fan", 0))(t)
			logs.TakeAll()
			text := must.Value(os.ReadFile(filepath.Join(dir, "cordons.json")))(t)
			mend := tc.spoil(t, dir)
			compare.Error(t, "Add", tc.want, compare.ErrorOf(book.Add(t.Context(), []string{"5e:00.0"}, "bob", "dust", 0)))
			compare.Error(t, "Remove", tc.want, compare.ErrorOf(book.Remove(t.Context(), []string{"3b:00.0"}, "bob")))
			mend()
			compare.Equal(t, "in the book", "3b:00.0 alice fan", entries(book))
			compare.Values(t, "file", text, must.Value(os.ReadFile(filepath.Join(dir, "cordons.json")))(t))
			compare.ErrorIs(t, "next file", fs.ErrNotExist, compare.ErrorOf(os.Lstat(filepath.Join(dir, "cordons.json.new"))))
			compare.Empty(t, "logged", lines(logs))
			compare.NoError(t, "mended", compare.ErrorOf(book.Add(t.Context(), []string{"5e:00.0"}, "bob", "dust", 0)))
		})
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) func() {
	t.Helper()
	info := must.Value(os.Stat(path))(t)
	must.Succeed(t, os.Chmod(path, mode))
	return func() { must.Succeed(t, os.Chmod(path, info.Mode())) }
}

func TestOpen(t *testing.T) {
	const good = `{"cordons": [{"device": "3b:00.0", "by": "a", "why": "w", "since": "2026-11-22T10:22:00+01:00"}]}`
	for _, tc := range []struct {
		name, text string
		mode       fs.FileMode
		want       string // substring of the error; "": none
		logged     string // the event
	}{
		{"good", good, 0o700, "", "device.cordoned 3b:00.0 a file"},
		{"no file", "", 0o755, "", ""},
		{"empty", " ", 0o700, "cordons.json: EOF, want", ""},
		{"cut", good[:60], 0o700, "cordons.json: unexpected EOF", ""},
		{"not trusted", good, 0o777, "state: found mode 0777", ""},
		{"not trusted, no file", "", 0o777, "", "cordon.unavailable"},
		{"large", good + strings.Repeat(" ", 1<<20), 0o700, "cordons.json: found more than 1048576 bytes", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := privatedirtest.Dir(t)
			if tc.text != "" {
				must.Succeed(t, os.WriteFile(filepath.Join(dir, "cordons.json"), []byte(tc.text), 0o600))
			}
			chmod(t, dir, tc.mode)
			core, logs := observer.New(zapcore.InfoLevel)
			_, err := cordon.Open(dir, zap.New(core))
			compare.Outcome(t, "error", tc.want, err)
			if got := strings.Join(lines(logs), "; "); !strings.HasPrefix(got, tc.logged) || tc.logged == "" && got != "" {
				t.Errorf("logged %q, want %q", got, tc.logged)
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		book, logs := open(t, "")
		compare.Error(t, "Add", "--state-dir: found none", compare.ErrorOf(book.Add(t.Context(), []string{"3b:00.0"}, "a", "w", 0)))
		if len(book.List())+logs.Len() > 0 {
			t.Error("there are cordons or lines")
		}
	})
	t.Run("a file in the place of the directory", func(t *testing.T) {
		dir := filepath.Join(privatedirtest.Dir(t), "file")
		must.Succeed(t, os.WriteFile(dir, nil, 0o600))
		book, logs := open(t, dir)
		compare.Error(t, "Add", "want a directory", compare.ErrorOf(book.Add(t.Context(), []string{"3b:00.0"}, "a", "w", 0)))
		compare.Equal(t, "lines", 1, logs.FilterMessage("cordons cannot be stored, none are in force").Len())
	})
}

func TestExpiry(t *testing.T) {
	dir := privatedirtest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		one, logs := open(t, dir)
		two, _ := open(t, dir)
		task.Run(t, one.RunUnwatched)
		task.Run(t, two.RunUnwatched)
		synctest.Wait()
		must.Value(one.Add(t.Context(), []string{"3b:00.0"}, "alice", "fan", time.Hour))(t)
		must.Value(one.Add(t.Context(), []string{"5e:00.0"}, "alice", "dust", 0))(t)
		// Without inotify, the other daemon reads the file within half a minute.
		time.Sleep(30 * time.Second)
		synctest.Wait()
		compare.Values(t, "cordons of the two", one.List(), two.List())
		time.Sleep(time.Hour - 30*time.Second - time.Millisecond)
		synctest.Wait()
		if len(one.List()) != 2 || len(two.List()) != 2 {
			t.Error("ended too early")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		for _, book := range []*cordon.Book{one, two} {
			compare.Equal(t, "after an hour", "5e:00.0 alice dust", entries(book))
		}
		if text := must.Value(os.ReadFile(filepath.Join(dir, "cordons.json")))(t); strings.Contains(string(text), "3b:00.0") {
			t.Errorf("the file has it still:\n%s", text)
		}
		got := lines(logs)
		compare.Equal(t, "logged last", "device.uncordoned 3b:00.0 <nil> expired", got[len(got)-1])
	})
}

// If the file can't be read, a cordon stays in force, and still expires on time.
func TestBadFileWhileRunning(t *testing.T) {
	dir := privatedirtest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		book, logs := open(t, dir)
		task.Run(t, book.RunUnwatched)
		must.Value(book.Add(t.Context(), []string{"3b:00.0"}, "alice", "fan", time.Hour))(t)
		synctest.Wait()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "cordons.json"), []byte("{}{}"), 0o600))
		logs.TakeAll()
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		compare.Equal(t, "before its end", "3b:00.0 alice fan", entries(book))
		if got := logs.TakeAll(); len(got) != 1 || got[0].Level != zapcore.ErrorLevel {
			t.Errorf("%d lines %v, want one error", len(got), got)
		}
		compare.Error(t, "Add", "found text after the JSON object", compare.ErrorOf(book.Add(t.Context(), []string{"5e:00.0"}, "bob", "w", 0)))
		time.Sleep(time.Second)
		synctest.Wait()
		compare.Equal(t, "after its end", "", entries(book))
	})
}

// With inotify, one daemon's change reaches the other immediately.
func TestTwoDaemons(t *testing.T) {
	dir := privatedirtest.Dir(t)
	one, _ := open(t, dir)
	two, logs := open(t, dir)
	task.Run(t, one.Run)
	task.Run(t, two.Run)
	await := func(book *cordon.Book, want string) {
		for changed := book.Changed(); entries(book) != want; changed = book.Changed() {
			<-changed
		}
	}
	must.Value(one.Add(t.Context(), []string{"3b:00.0"}, "alice", "fan", 0))(t)
	await(two, "3b:00.0 alice fan")
	must.Value(two.Remove(t.Context(), []string{"3b:00.0"}, "bob"))(t)
	await(one, "")
	compare.Values(t, "log", []string{"device.cordoned 3b:00.0 alice file", "device.uncordoned 3b:00.0 bob command"}, lines(logs))

	// If both write at the same time, nothing is lost.
	var all sync.WaitGroup
	for i, book := range []*cordon.Book{one, two} {
		all.Go(func() {
			for n := range 16 {
				compare.NoError(t, "Add", compare.ErrorOf(book.Add(t.Context(), []string{fmt.Sprintf("%02x:%02x.0", i, n)}, "a", "w", 0)))
			}
		})
	}
	all.Wait()
	if again, _ := open(t, dir); len(again.List()) != 32 {
		t.Errorf("%d cordons, want 32", len(again.List()))
	}
}
