package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/draname"
	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/podresources"
)

// owns returns true for resource r.
func owns(resource, _ string) bool { return resource == "r" }

func TestSharedHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := held{podresources.Key{Resource: "r", ID: "a"}: {{Namespace: "ns", Pod: "pod", Container: "main"}},
			podresources.Key{Resource: "other", ID: "b"}: {{}}, podresources.Key{Resource: draname.Driver, ID: "c"}: {{}}}
		refused := errors.New("refused")
		var questions int
		var err error
		shared := &sharedHolders{turn: make(chan struct{}, 1), fresh: func() bool { return false }, owns: owns, given: server.NewAllocations(0), ask: func() (held, error) {
			questions++
			time.Sleep(holdersSoon)
			if err != nil {
				return nil, err
			}
			return answer, nil
		}}
		// expect has 100 callers at once.
		expect := func(when string, wantQuestions int, wantErr error) {
			t.Helper()
			var callers sync.WaitGroup
			for range 100 {
				callers.Go(func() {
					if got, err := shared.latest(t.Context()); !errors.Is(err, wantErr) || err == nil && (len(got.held.of("r", "a")) != 1 || !got.gave("a") || got.gave("b") || !got.gave("c")) {
						t.Errorf("%s: holders %v, error %v, want the holder of a or %v", when, got, err, wantErr)
					}
				})
			}
			callers.Wait()
			if questions != wantQuestions {
				t.Errorf("%s: the kubelet was asked %d times, want %d", when, questions, wantQuestions)
			}
		}
		expect("100 callers while the kubelet is slow", 1, nil)
		err = refused
		time.Sleep(holdersAge - holdersSoon - time.Nanosecond)
		expect("just before the answer is a second old", 1, nil)
		time.Sleep(time.Nanosecond)
		expect("a second after the question", 2, refused)
		err = nil
		expect("an error is kept", 2, refused)
		time.Sleep(holdersAge)
		expect("a second later", 3, nil)
	})
}

// A caller that disconnects stops waiting for the request of another caller, and does not end that request.
func TestSharedHoldersCallerDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedHolders{turn: make(chan struct{}, 1), fresh: func() bool { return false }, owns: owns, given: server.NewAllocations(0), ask: func() (held, error) {
			time.Sleep(holdersSoon)
			return held{}, nil
		}}
		var callers sync.WaitGroup
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), holdersSoon/2)
			defer cancel()
			if got, err := shared.latest(ctx); got.held == nil || err != nil {
				t.Errorf("holders %v, %v for the caller that asked, want an answer", got, err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), holdersSoon/2)
		defer cancel()
		if _, err := shared.latest(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v for a caller that goes, want %v", err, context.DeadlineExceeded)
		}
		callers.Wait()
	})
}

// In the first seconds of a kubelet, a device that it does not name may be held.
func TestKubeletThatHasJustStarted(t *testing.T) {
	socket := filepath.Join(shortDir(t), "kubelet.sock")
	pods, err := simkubelet.StartPodResources(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	for _, test := range []struct {
		age  time.Duration
		want bool
	}{{-time.Hour, false}, {0, true}, {5 * time.Second, true}, {10 * time.Second, false}} {
		at := time.Now().Add(-test.age)
		if err := os.Chtimes(socket, at, at); err != nil {
			t.Fatal(err)
		}
		shared := shareHolders(t.Context(), holderSource{socket: socket, owns: owns, given: server.NewAllocations(0)})
		if got, err := shared.latest(t.Context()); err != nil || got.unsure != test.want {
			t.Errorf("%s after its start: unsure %t, %v, want %t", test.age, got.unsure, err, test.want)
		}
	}
	if podresources.JustStarted("/nonexistent") {
		t.Error("a kubelet that is not there has just started")
	}
}
