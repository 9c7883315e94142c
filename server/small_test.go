package server_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/server"
)

func TestBackoff(t *testing.T) {
	next, reset := server.NewBackoff(100*time.Millisecond, 30*time.Second)
	for range 100 {
		for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000} {
			want *= time.Millisecond
			if got := next(); got < want/2 || got > want {
				t.Fatalf("wait %d: %v, want %v to %v", i, got, want/2, want)
			}
		}
		reset()
	}
}

func TestLibraryLog(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	log := server.NewLibraryLog(zap.New(core))
	log.Info("a", 1)
	log.Infof("b%d", 2)
	log.Infoln("c", 3)
	log.Warning("d")
	log.Warningf("e%d", 5)
	log.Errorln("f", 6)
	var got []string
	for _, line := range logs.All() {
		if name := line.ContextMap()["event"]; name != "library.log" {
			t.Errorf("%q: event %v", line.Message, name)
		}
		got = append(got, line.Level.String()+" "+line.Message)
	}
	want := []string{"debug a1", "debug b2", "debug c 3", "warn d", "warn e5", "error f 6"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if !log.V(2) || server.NewLibraryLog(zap.NewNop()).V(0) {
		t.Errorf("verbose lines are wanted at debug level only")
	}
}
