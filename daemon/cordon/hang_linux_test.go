package cordon_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// While the state directory hangs, cordons still expire, commands fail instead of hanging, and Run still returns when
// the daemon exits.
func TestStateDirHangs(t *testing.T) {
	t.Parallel()
	dir := privatedirtest.Dir(t)
	book, logs := open(t, dir)
	add := func(device string, during time.Duration) error {
		_, err := book.Add(t.Context(), []string{device}, "alice", "x", during)
		return err
	}
	must.Succeed(t, add("3b:00.0", 3*time.Second), add("5e:00.0", 0))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- book.Run(ctx) }()
	release := privatedirtest.Hang(t, dir)
	for range 3 {
		compare.Equal(t, "error", dir+": no answer: the file system hangs", fmt.Sprint(add("af:00.0", 0)))
	}
	compare.Error(t, "Remove", "the file system hangs", compare.ErrorOf(book.Remove(t.Context(), []string{"5e:00.0"}, "alice")))
	inForce := func(when, want string) {
		t.Helper()
		patient.Await(t, when, func() error {
			if got := entries(book); got != want {
				return fmt.Errorf("in force: %s, want %s", got, want)
			}
			return nil
		})
	}
	inForce("one has expired", "5e:00.0 alice x")
	patient.Await(t, "a log line", func() error {
		if n := logs.FilterField(logevent.CordonUnavailable).Len(); n != 1 {
			return fmt.Errorf("found %d lines, want one", n)
		}
		return nil
	})
	release()
	patient.Await(t, "the file system answers", func() error { return add("d8:00.0", 0) })
	inForce("as before the file system hung", "5e:00.0 alice x; d8:00.0 alice x")

	privatedirtest.Hang(t, dir)
	_ = add("af:00.0", 0)
	began := time.Now()
	cancel()
	if err := <-ended; err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("Run ended after %s with %v, want at most about a second", time.Since(began), err)
	}
}
