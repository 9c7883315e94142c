package slices_test

import (
	"context"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/internal/logevent/eventtest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// port is a family with one card, whose only port a test sets.
type port struct{ atomic.Pointer[inventory.Unit] }

func (*port) Name() string                       { return "dfl" }
func (*port) Signals() inventory.Signals         { return inventory.Signals{} }
func (*port) Rows() []inventory.Row              { return nil }
func (*port) Cards(sysfs.Host) ([]string, error) { return []string{"0000:3b:00.0"}, nil }
func (p *port) Read(_ sysfs.Host, card string) (inventory.Reading, error) {
	if card != "0000:3b:00.0" {
		return inventory.Reading{}, fs.ErrNotExist
	}
	return inventory.Reading{Units: []inventory.Unit{*p.Load()}}, nil
}
func (p *port) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	return p.Read(host, card)
}

// A port has no AFU while it is programmed. Its holder is not evicted for that. If the port does not answer with an
// AFU within the reprogram timeout, because the programming has failed, it is tainted until it does.
func TestProgrammingTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const before, after = "d8424dc4a4a3c413f89e433683f9040b", "f7df405cbd7acf7222f144b0b93acd18"
		p := &port{}
		set := func(afu string, conditions ...inventory.Condition) {
			p.Store(&inventory.Unit{
				Name: "dfl-port.0", Incarnation: 1, PortIDKnown: true, Facts: inventory.Facts{AFUID: afu, NUMANode: -1, Nodes: []string{"dfl-port.0"}}, AFUIDKnown: afu != "", InterfaceIDKnown: true, Conditions: conditions,
			})
		}
		set(before)
		watching := daemon.Watching(config.Defaults(), metrics.New("test"))
		watching.Policy = inventory.Policy{Families: []inventory.Family{p}, Name: func(*inventory.Device) (string, error) { return draname.Driver, nil }}
		inv := inventory.New(watching, sysfs.Host{}, eventtest.Log(t))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- inv.Run(ctx) }()
		want := func(when string, wait time.Duration, want string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			s, _ := inv.Latest()
			d := slices.Of(s.Devices, slices.Options{Node: "n", Effect: resourceapi.DeviceTaintEffectNoExecute}).Pools["n"].Slices[0].Devices[0]
			got := []string{*d.Attributes["afuId"].StringValue}
			if d.Attributes["degraded"].BoolValue != nil {
				got = append(got, "degraded")
			}
			for _, taint := range d.Taints {
				got = append(got, taint.Value+":"+string(taint.Effect))
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s: found %s, want %s", when, text, want)
			}
		}
		programming := inventory.Condition{Reason: "reprogramming", Health: inventory.Degraded, Row: "reprogramming", Passing: true}
		failed := inventory.Condition{Reason: "programming-failed", Health: inventory.Degraded, Row: "programming-failed"}
		want("start", time.Second, before)
		set("", programming)
		want("being programmed", 10*time.Second, before+" degraded")
		set(after)
		want("programmed", 5*time.Second, after+" degraded")
		want("programmed long ago", 15*time.Second, after)

		set("", programming, failed)
		want("failed", 50*time.Second, after+" degraded")
		want("failed for the reprogram timeout", 20*time.Second, after+" reprogramming:NoExecute")
		want("an hour later", time.Hour, after+" reprogramming:NoExecute")
		set(before)
		want("answers again", 6*time.Second, before+" recovering.programming-failed:NoSchedule")
		want("has answered for the recovery hold", 15*time.Second, before)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
