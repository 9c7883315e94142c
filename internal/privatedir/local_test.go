package privatedir_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestCheckLocal(t *testing.T) {
	dir := must.Value(privatedir.OpenDir(ownDir(t), false))(t)
	defer dir.Close()
	must.Succeed(t, privatedir.CheckLocal(dir))
	dir.Close()
	compare.Error(t, "closed directory", "", privatedir.CheckLocal(dir))
	for number, name := range map[int64]string{
		0x6969: "nfs", 0xFE534D42: "smb3", int64(int32(-0x00ACB2BE)): "cifs", // negative where the field has 32 bits
		0x20030528: "orangefs", 0x786F4256: "vboxsf", 0xBACBACBC: "vmhgfs",
		0xEF53: "", 0x58465342: "", 0x01021994: "", 0x9123683E: "", 0x794C7630: "", // ext4, xfs, tmpfs, btrfs, overlayfs
	} {
		want := ""
		if name != "" {
			want = "/s: found the network file system " + name + ", want a local file system of this node, such as ext4, xfs or tmpfs"
		}
		got := ""
		if err := privatedir.CheckType("/s", number); err != nil {
			got = err.Error()
		}
		compare.Equal(t, fmt.Sprintf("%#x: error", number), want, got)
	}
}

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, hang, ended := privatedir.NewTurns("/s"), make(chan struct{}), false
		began, before := time.Now(), runtime.NumGoroutine()
		try := func(name string, ctx context.Context, f func(context.Context) error, want string, after time.Duration) {
			t.Helper()
			got := ""
			if err := turns.Within(ctx, time.Second, f); err != nil {
				got = err.Error()
			}
			if took := time.Since(began); got != want || took != after {
				t.Errorf("%s: error %q after %s, want %q after %s", name, got, took, want, after)
			}
		}
		works := func(context.Context) error { return nil }
		fails := func(context.Context) error { return errors.New("disk full") }
		hangs := func(ctx context.Context) error {
			<-hang
			ended = ctx.Err() != nil
			return nil
		}
		try("works", t.Context(), works, "", 0)
		try("fails", t.Context(), fails, "disk full", 0)
		try("hangs", t.Context(), hangs, "/s: no answer: the file system hangs", time.Second)
		for range 100 {
			try("still hangs", t.Context(), works, "/s: no answer: the file system hangs", time.Second)
		}
		// The runtime's own goroutines come and go, so the number isn't exact.
		if more := runtime.NumGoroutine() - before; more > 10 {
			t.Errorf("%d more goroutines after 100 calls, want only the one that hangs", more)
		}
		close(hang)
		synctest.Wait()
		if !ended {
			t.Error("the context of the function that was given up has not ended")
		}
		try("works again", t.Context(), works, "", time.Second)

		// A caller waits for another one that does not hang.
		go func() {
			_ = turns.Within(t.Context(), time.Minute, func(context.Context) error { time.Sleep(time.Second / 2); return nil })
		}()
		synctest.Wait()
		try("after another", t.Context(), works, "", 3*time.Second/2)
		go func() {
			_ = turns.Within(t.Context(), time.Minute, func(context.Context) error { time.Sleep(time.Minute); return nil })
		}()
		synctest.Wait()
		try("after a slow one", t.Context(), works, "/s: no answer: the file system hangs", 5*time.Second/2)
		try("after a slow one that goes on", t.Context(), works, "/s: no answer: the file system hangs", 5*time.Second/2)
		time.Sleep(time.Minute)
		synctest.Wait()

		// A caller that gives up early does not make others believe that the file system hangs.
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		brief := func(context.Context) error { time.Sleep(time.Second / 2); return nil }
		try("the caller ends sooner", ctx, brief, "context deadline exceeded", time.Millisecond)
		try("the next one waits", t.Context(), works, "", time.Second/2)

		// If the file system does hang, only the next caller waits.
		began, hang = time.Now(), make(chan struct{})
		ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		try("the caller of one that hangs ends sooner", ctx, hangs, "context deadline exceeded", time.Millisecond)
		for range 3 {
			try("after it", t.Context(), works, "/s: no answer: the file system hangs", time.Second+time.Millisecond)
		}
		close(hang)
	})
}
