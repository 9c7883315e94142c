package grpclog_test

import (
	"fmt"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/grpclog"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
)

func TestLevels(t *testing.T) {
	core, logs := eventtest.Observed(t)
	log := grpclog.New(zap.New(core))
	log.Info("a", 1)
	log.Infof("b%d", 2)
	log.Infoln("c", 3)
	log.Warning("d")
	log.Warningf("e%d", 5)
	log.Warningln("f", 6)
	log.Error("g")
	log.Errorf("h%d", 8)
	log.Errorln("i", 9)
	var got []string
	for _, line := range logs.All() {
		compare.Equal(t, fmt.Sprintf("event of %q", line.Message), "library.log", line.ContextMap()["event"])
		got = append(got, line.Level.String()+" "+line.Message)
	}
	want := []string{"debug a1", "debug b2", "debug c 3", "debug d", "debug e5", "debug f 6", "warn g", "warn h8", "warn i 9"}
	compare.Values(t, "lines", want, got)
	if !log.V(2) || grpclog.New(zap.NewNop()).V(0) {
		t.Errorf("V: want true at debug level only")
	}
}
