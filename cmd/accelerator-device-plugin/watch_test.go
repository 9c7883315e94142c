package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// watch -o state prints the whole state at first and again after each change. --for makes it exit even if its output
// isn't being read.
func TestWatchState(t *testing.T) {
	r, node, _ := cmdtest.Serve(t)
	r.Await("control.served")
	socket := r.Args[slices.Index(r.Args, "--socket")+1]
	must.Succeed(t, node.Plug(cardA))
	patient.Await(t, "state of both ports, healthy", func() error {
		out, errs, code := cmdtest.Output(t, "watch", "-o", "state", "--for", "1s", "--socket", socket)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		var state struct {
			API     string
			Devices []struct{ ID, Health string }
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &state); err != nil || code != 0 || errs != "" {
			t.Fatalf("exit code %d, error %v, want 0, and lines of JSON:\n%s%s", code, err, out, errs)
		}
		if got, want := fmt.Sprint(state), "{devicePlugin [{3b:00.0 healthy} {3b:00.0-p1 healthy}]}"; got != want {
			return fmt.Errorf("found %s, want %s", got, want)
		}
		return nil
	})
	full, write, err := os.Pipe()
	must.Succeed(t, err)
	defer full.Close()
	defer write.Close()
	must.Succeed(t, write.SetWriteDeadline(time.Now().Add(time.Second)))
	if _, err := write.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("pipe: error %v, want that it is full", err)
	}
	unread := cmdtest.Command(t, "watch", "-o", "state", "--for", "1s", "--socket", socket)
	unread.Stdout = write
	must.Succeed(t, unread.Start())
	defer time.AfterFunc(patient.Limit, func() { unread.Process.Kill() }).Stop()
	compare.NoError(t, "end of watch whose output is not read", unread.Wait())
	for _, args := range [][]string{{"-o", "yaml"}, {"-o", "state", "--scan"}, {"--for", "-1s"}} {
		if _, errs, code := cmdtest.Output(t, append([]string{"watch"}, args...)...); code != 2 || !strings.Contains(errs, "found ") {
			t.Errorf("%v: exit code %d, want 2 and what was found: %s", args, code, errs)
		}
	}
}
