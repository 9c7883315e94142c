package ui_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/ui"
)

// Nodes are followed while a page is open, and 30 s longer. After an error, they are followed again.
func TestFollowsWhileOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := ui.NewBoard("lab")
		ctx, cancel := context.WithCancel(t.Context())
		var following, failing, ended atomic.Bool
		var begun atomic.Int64
		go func() {
			board.Follow(ctx, func(ctx context.Context, report func(fleet.Change)) error {
				begun.Add(1)
				if failing.Load() {
					return errors.New("no API server")
				}
				following.Store(true)
				defer func() { following.Store(false) }()
				report(fleet.Change{})
				report(change(t, "worker-1", state))
				<-ctx.Done()
				return nil
			})
			ended.Store(true)
		}()
		open := func() (closePage func()) {
			ctx, cancel := context.WithCancel(t.Context())
			go ui.Handler(board, host, token).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "http://"+host+"/SECRET/events", nil))
			return cancel
		}
		expect := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			if got := following.Load(); got != want {
				t.Errorf("%s: followed %t, want %t", when, got, want)
			}
		}
		<-time.After(time.Hour)
		expect("before a page is open", false)
		first := open()
		expect("a page is open", true)
		second := open()
		first()
		<-time.After(time.Hour)
		expect("another one is open", true)
		second()
		<-time.After(29 * time.Second)
		expect("none is open since 29 s", true)
		third := open() // the page was loaded again
		<-time.After(time.Minute)
		expect("it was loaded again", true)
		if n := begun.Load(); n != 1 {
			t.Errorf("followed %d times, want once", n)
		}
		third()
		<-time.After(31 * time.Second)
		expect("none is open since 31 s", false)

		failing.Store(true)
		begun.Store(0)
		open()
		<-time.After(time.Minute)
		synctest.Wait()
		if n := begun.Load(); n < 5 || n > 20 {
			t.Errorf("followed %d times in a minute, want about every 5 s", n)
		}
		failing.Store(false)
		<-time.After(6 * time.Second)
		expect("the error is over", true)
		cancel()
		synctest.Wait()
		if !ended.Load() {
			t.Error("it goes on after its context has ended")
		}
	})
}
