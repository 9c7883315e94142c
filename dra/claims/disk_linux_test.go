package claims_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const good = `{"version": 1, "claims": [{"uid": "uid-one", "namespace": "default", "name": "one", "devices": [
	{"request": "a", "device": "pci-0000-3b-00-0", "nodes": ["dfl-port.0", "240:0"]}]}]}`

// If the file is not valid, each call returns an error that contains the file and the remedy. The file is not changed,
// and nodes are withheld nevertheless.
func TestBadFile(t *testing.T) {
	const remedy = "; the file is not changed: delete the pods of this node that have claims of accelerator.b-com.com, then remove the file"
	for _, tc := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"truncated", good[:100], 0o600, ": found unexpected end of JSON input, want the claims of the driver" + remedy},
		{"large", good + strings.Repeat(" ", claims.MaxFile), 0o600, ": found more than 4194304 bytes, want at most 4194304" + remedy},
		{"writable by others", good, 0o622, ": found mode 0622, want it not writable by group and others: chmod go-w "},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			r, one, two := twoCards(t)
			r.prepare(one)
			r.start()
			synctest.Wait()
			r.lines()
			path := filepath.Join(r.dir, claims.FileName)
			must.Succeed(t, os.WriteFile(path, []byte(tc.text), 0o600), os.Chmod(path, tc.mode))
			info := must.Value(os.Lstat(path))(t)
			before := r.file()
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if lines := r.lines(); len(lines) != 1 || !strings.HasPrefix(lines[0], "cdi.failed ") {
				t.Errorf("log: found %q, want one error", lines)
			}
			_, errHoldings := r.Holdings(t.Context())
			for call, err := range map[string]error{
				"Prepare": r.Prepare(t.Context(), two).Err, "Prepare again": r.Prepare(t.Context(), one).Err, "Ready": r.Ready(),
				"Unprepare": r.Unprepare(t.Context(), objectOf(one)), "Unprepare unknown": r.Unprepare(t.Context(), objectOf(two)), "Holdings": errHoldings,
			} {
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: error %v, want the file and %q", call, err, tc.want)
				}
			}
			r.injects(devicesOf(one, "dfl-port.0")...)
			r.set(sick(port("3b:00.0", 0), "replaced-in-use"), port("5e:00.0", 1))
			synctest.Wait()
			r.injects()
			r.set(port("3b:00.0", 0), port("5e:00.0", 1))
			synctest.Wait()

			now, err := os.Lstat(path)
			if err != nil || !os.SameFile(info, now) || !info.ModTime().Equal(now.ModTime()) || before != r.file() {
				t.Errorf("file: found %v, %v, want it unchanged", now, err)
			}
			must.Succeed(t, os.RemoveAll(path))
			r.prepare(one)
			compare.NoError(t, "Ready", r.Ready())
		})
	}
}

// A directory that others can change, or that cannot be made, is refused.
func TestBadDirectory(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0))
	c := claimOf("one", result("a", "3b:00.0"))
	must.Succeed(t, os.Chmod(r.dir, 0o777))
	_, errHoldings := r.Holdings(t.Context())
	_, errOpen := claims.Open(claims.Config{Dir: r.dir, Log: zap.NewNop()})
	for _, err := range []error{r.Prepare(t.Context(), c).Err, r.Unprepare(t.Context(), objectOf(c)), errHoldings, errOpen} {
		compare.Error(t, "error", r.dir+": found mode 0777, want it not writable", err)
	}
	must.Succeed(t, os.Chmod(r.dir, 0o700))
	r.prepare(c)
	// A kubelet that is reset removes the directory.
	must.Succeed(t, os.RemoveAll(r.dir))
	r.holds()
	r.prepare(c)
	r.holds("3b:00.0 dfl-port.0 240:0")
}

// Without a free file descriptor, each call returns an error, and nothing changes. The test is not parallel, because
// other tests would have no descriptors either.
func TestOutOfDescriptors(t *testing.T) {
	r, one, two := twoCards(t)
	r.prepare(one)
	file, spec := r.file(), r.specText()
	var limit syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	open := must.Value(os.ReadDir("/proc/self/fd"))(t)
	for more := range uint64(12) { // each call needs some descriptors, so it runs out of them at each of its steps
		must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(len(open)) - 1 + more, Max: limit.Max}))
		_, errHoldings := r.Holdings(t.Context())
		errPrepare := r.Prepare(t.Context(), two).Err
		errUnprepare := r.Unprepare(t.Context(), objectOf(one))
		must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
		for _, err := range []error{errHoldings, errPrepare, errUnprepare} {
			if err != nil && !errors.Is(err, syscall.EMFILE) {
				t.Errorf("error %v, want %v", err, syscall.EMFILE)
			}
		}
		if more == 0 && (errHoldings == nil || errPrepare == nil || errUnprepare == nil || r.file() != file || r.specText() != spec) {
			t.Errorf("errors %v, %v, %v, want three, and no change", errHoldings, errPrepare, errUnprepare)
		}
		if errUnprepare != nil && !strings.Contains(r.file(), "uid-one") {
			t.Errorf("file: found %s, want the claim whose Unprepare failed", r.file())
		}
		if errPrepare == nil && !strings.Contains(r.file(), "uid-two") {
			t.Errorf("file: found %s, want the claim that was prepared", r.file())
		}
		if strings.Contains(r.file(), "the file is not changed") {
			t.Error("a lack of descriptors counts as a bad file")
		}
		r.unprepare(two)
		r.prepare(one)
		if diff := cmp.Diff(file, r.file()) + cmp.Diff(spec, r.specText()); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}

// fullIn is the environment variable with the directory in which the test binary prepares a claim, as a process without
// space on the disk.
const fullIn = "CLAIMS_TEST_FULL_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fullIn); dir != "" {
		fmt.Println(full(dir))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func full(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit), syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: limit.Max})); err != nil {
		return err
	}
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit) // needed for the profile of go test -cover
	spec, err := cdi.Open(dir+"/cdi", kind, "/dev")
	if err != nil {
		return err
	}
	devices := []*inventory.Device{port("3b:00.0", 0), port("5e:00.0", 1)}
	c, err := claims.Open(claims.Config{
		Dir: dir + "/plugin", Node: node, Spec: spec, Devices: fixed{inventory.Snapshot{Version: 1, Complete: true, Devices: devices}},
		Taints: taints, Log: zap.NewNop(), Metrics: metrics.New("test"),
	})
	if err != nil {
		return err
	}
	one, two, gone := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0")), claimOf("gone", result("a", "af:00.0"))
	fmt.Println(c.Prepare(context.Background(), one).Err) // already prepared
	fmt.Println(c.Prepare(context.Background(), two).Err)
	fmt.Println(c.Prepare(context.Background(), gone).Err)
	return c.Unprepare(context.Background(), objectOf(one)) // the only one
}

// On a full disk, a prepared claim gets its answer, no other claim can be prepared, and the last claim can be
// unprepared.
func TestFullDisk(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
	one := claimOf("one", result("a", "3b:00.0"))
	r.prepare(one)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), fullIn+"="+filepath.Dir(r.dir))
	out, err := child.CombinedOutput()
	want := "<nil>\n" +
		"claim default/two: " + r.dir + "/claims.json.new: file too large\n" +
		"claim default/gone: device pci-0000-af-00-0 (af:00.0) of request a: has left the node; " + r.dir + "/claims.json.new: file too large\n" +
		"<nil>\n"
	compare.NoError(t, "printed", err)
	compare.Values(t, "printed", want, string(out))
	r.holds()
	if left, err := filepath.Glob(r.dir + "/*.new"); len(left) > 0 || err != nil {
		t.Errorf("found %q, want no new file", left)
	}
}

// The size of the file is limited. A claim that does not fit is refused, and the others stay.
func TestBoundedFile(t *testing.T) {
	d := port("3b:00.0", 0)
	r := newRig(t, d, port("5e:00.0", 1))
	c := claimOf("two", result("a", "5e:00.0"))
	r.prepare(c)
	file := r.file()
	large := port("3b:00.0", 0)
	large.NodeNumbers = []string{strings.Repeat("9", claims.MaxFile)}
	r.set(large, port("5e:00.0", 1))
	r.refuseNow(claimOf("one", result("a", "3b:00.0")), "bytes to write, want at most 4194304")
	compare.Values(t, "file", file, r.file())
}
