package nodecondition_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/daemon/nodecondition"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/pipes"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
	"b-com.com/accelerator-device-plugin/test/task"
)

const worker = "worker-3"

type snapshots struct {
	*latest.Value[inventory.Snapshot]
}

func (s snapshots) Latest() (inventory.Snapshot, <-chan struct{}) { return s.Load() }

type book struct{ *latest.Value[[]cordon.Cordon] }

func (b book) List() []cordon.Cordon    { all, _ := b.Load(); return all }
func (b book) Changed() <-chan struct{} { _, changed := b.Load(); return changed }

// rig is a node whose cards are judged, and a simulated API server that stores its condition.
type rig struct {
	t       *testing.T
	kind    string // the condition's type
	server  *simapiserver.Server
	devices snapshots
	cordons book
	missing *latest.Value[[]ledger.Missing]
	awaited atomic.Int64
	ready   *latest.Value[error]
	cards   *nodecondition.Judgement
	logs    func() []string
	began   time.Time
	end     func()
}

// start calls prepare, unless it is nil, and starts the tasks.
func start(t *testing.T, prepare func(*rig)) *rig {
	listener := pipes.Listen(0)
	r := &rig{t: t, kind: nodecondition.Type, server: simapiserver.Start(listener), devices: snapshots{latest.New(inventory.Snapshot{})},
		cordons: book{latest.New[[]cordon.Cordon](nil)}, missing: latest.New[[]ledger.Missing](nil), ready: latest.New[error](nil), began: time.Now()}
	t.Cleanup(r.server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, os.WriteFile(kubeconfig, r.server.Kubeconfig(), 0o600))
	core, observed := eventtest.Observed(t)
	client := must.Value(apiserver.Open(apiserver.Config{Kubeconfig: kubeconfig, Dial: listener.Dial}, zap.New(core)))(t)
	r.logs = func() (lines []string) {
		for _, l := range observed.All() {
			if l.Level > zap.DebugLevel {
				fields := l.ContextMap()
				lines = append(lines, strings.TrimSpace(fmt.Sprint(fields["event"], " ", fields["reason"])))
			}
		}
		return lines
	}
	r.server.Set(worker, "u", nil)
	if prepare != nil {
		prepare(r)
	}
	r.cards = nodecondition.New(r.devices, r.cordons, r.missing.Load, func() int { return int(r.awaited.Load()) }, func() error { err, _ := r.ready.Load(); return err })
	endRun := task.Run(t, r.cards.Run)
	endWrite := task.Run(t, func(ctx context.Context) error { return r.cards.Write(ctx, client, worker, r.kind, zap.New(core)) })
	r.end = func() { endRun(); endWrite() }
	synctest.Wait()
	return r
}

// at advances the fake time to this many seconds after the start, and compares the condition: STATUS REASON, followed
// by the seconds of its transition and of its heartbeat. "" means that there is none.
func (r *rig) at(seconds float64, want string) {
	r.t.Helper()
	time.Sleep(time.Until(r.began.Add(time.Duration(seconds * float64(time.Second))))) // fake time
	synctest.Wait()
	got := ""
	for _, c := range r.server.Conditions(worker) {
		if c.Type == r.kind {
			got = fmt.Sprintf("%s %s %.0f %.0f", c.Status, c.Reason, c.LastTransitionTime.Sub(r.began).Seconds(), c.LastHeartbeatTime.Sub(r.began).Seconds())
		}
	}
	compare.Equal(r.t, fmt.Sprintf("after %v s: condition", seconds), want, got)
}

var (
	good = node(device("3b:00.0", false), device("d8:00.0", false))
	bad  = node(device("3b:00.0", true, "port-ap6"), device("d8:00.0", false))
	held = node(device("3b:00.0", false, "recovering=port-ap6"), device("d8:00.0", false))
)

func TestWrite(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(*rig)
		do      func(*rig)
		logs    []string
	}{
		{"a card is not found yet", func(r *rig) { r.awaited.Store(1) }, func(r *rig) {
			r.devices.Store(good)
			r.at(9, "")
			r.at(11, "Unknown NotRead 0 10")
			r.awaited.Store(0)
			r.at(21, "True NoFault 13 20")
		}, []string{"condition.changed NotRead: 1 card not found yet", "condition.changed NoFault: 2 cards without a fault"}},
		{"a card breaks and recovers", nil, func(r *rig) {
			r.devices.Store(good)
			r.at(0.9, "")
			r.at(2, "True NoFault 1 1") // a second later
			r.devices.Store(bad)
			r.at(10.9, "True NoFault 1 1") // at most every 10 s
			r.at(11, "False CardFault 3 11")
			r.devices.Store(held)
			r.at(30, "False CardFault 3 21") // only the message has changed
			r.devices.Store(good)
			r.at(40, "True NoFault 31 31")
		}, []string{
			"condition.changed NoFault: 2 cards without a fault",
			"condition.changed CardFault: 1 of 2 cards: 3b:00.0 port-ap6",
			"condition.changed NoFault: 2 cards without a fault",
		}},
		{"a card with a fault loses its driver", nil, func(r *rig) {
			r.devices.Store(bad)
			r.at(5, "False CardFault 1 1")
			r.awaited.Store(1)
			r.devices.Store(node(device("d8:00.0", false)))
			r.at(30, "Unknown NotRead 6 16")
			r.missing.Store([]ledger.Missing{{Card: "3b:00.0", Since: r.began}})
			r.at(60, "False CardMissing 31 31")
		}, []string{
			"condition.changed CardFault: 1 of 2 cards: 3b:00.0 port-ap6",
			"condition.changed NotRead: 1 card not found yet",
			"condition.changed CardMissing: 1 of 2 cards: 3b:00.0 missing since 2000-01-01T00:00Z",
		}},
		{"short states", nil, func(r *rig) {
			r.devices.Store(good)
			r.at(5, "True NoFault 1 1")
			r.devices.Store(node(device("3b:00.0", true, "driver-unbound")))
			r.at(5.9, "True NoFault 1 1")
			r.devices.Store(good)
			r.at(60, "True NoFault 1 1")
		}, []string{"condition.changed NoFault: 2 cards without a fault"}},
		{"a missing card is cordoned, and returns", nil, func(r *rig) {
			r.devices.Store(good)
			r.missing.Store([]ledger.Missing{{Card: "5e:00.0", Since: r.began}})
			r.at(5, "False CardMissing 1 1")
			r.cordons.Store([]cordon.Cordon{{Device: "5e:00.0"}})
			r.at(20, "True NoFault 6 11")
			r.cordons.Store(nil)
			r.at(40, "False CardMissing 21 21")
			r.missing.Store(nil)
			r.at(60, "True NoFault 41 41")
		}, []string{
			"condition.changed CardMissing: 1 of 3 cards: 5e:00.0 missing since 2000-01-01T00:00Z",
			"condition.changed NoFault: 2 cards without a fault",
			"condition.changed CardMissing: 1 of 3 cards: 5e:00.0 missing since 2000-01-01T00:00Z",
			"condition.changed NoFault: 2 cards without a fault",
		}},
		{"not advertised yet", func(r *rig) { r.ready.Store(errors.New("no kubelet")) }, func(r *rig) {
			r.devices.Store(good)
			r.at(9.9, "")
			r.at(15, "Unknown NotAdvertised 0 10")
			r.ready.Store(nil)
			r.at(30, "True NoFault 17 20")
			r.ready.Store(errors.New("the kubelet restarts"))
			r.at(60, "True NoFault 17 20")
		}, []string{
			"condition.changed NotAdvertised: the devices are not advertised to Kubernetes yet",
			"condition.changed NoFault: 2 cards without a fault",
		}},
		{"a node without cards", nil, func(r *rig) {
			r.devices.Store(node())
			r.at(9.9, "")
			r.at(20, "Unknown NoCards 0 10")
		}, []string{"condition.changed NoCards: this node has no cards"}},
		{"restart of the daemon", func(r *rig) {
			r.server.SetCondition(worker, simapiserver.Condition{Type: nodecondition.Type, Status: "False", Reason: "CardFault",
				LastTransitionTime: r.began.Add(-time.Hour), Manager: "accelerator-device-plugin " + nodecondition.Type})
		}, func(r *rig) {
			r.devices.Store(bad)
			r.at(5, "False CardFault -3600 1") // the transition time doesn't change
			r.devices.Store(good)
			r.at(20, "True NoFault 6 11")
		}, []string{"condition.changed NoFault: 2 cards without a fault"}},
		{"restart of the daemon during a hold", func(r *rig) {
			r.server.SetCondition(worker, simapiserver.Condition{Type: nodecondition.Type, Status: "False", Reason: "CardFault",
				LastTransitionTime: r.began.Add(-time.Hour), Manager: "accelerator-device-plugin " + nodecondition.Type})
		}, func(r *rig) {
			r.devices.Store(held)
			r.at(30, "False CardFault -3600 10")
			r.devices.Store(good)
			r.at(40, "True NoFault 31 31") // once it is advertised again
		}, []string{"condition.changed NoFault: 2 cards without a fault"}},
		{"a hold at the first start", nil, func(r *rig) {
			r.devices.Store(held)
			r.at(30, "Unknown Recovering 0 10")
		}, []string{"condition.changed Recovering: waits for the recovery of 1 card"}},
		{"the Node is deleted and created again", nil, func(r *rig) {
			r.devices.Store(good)
			r.at(5, "True NoFault 1 1")
			r.server.Delete(worker)
			r.server.Set(worker, "another", nil)
			r.at(200, "")
			time.Sleep(3 * time.Minute) // fake time
			synctest.Wait()
			if all := r.server.Conditions(worker); len(all) != 1 || all[0].Status != "True" || !all[0].LastTransitionTime.Equal(r.began.Add(time.Second)) {
				r.t.Errorf("conditions %+v, want one that is True since 1 s after the start", all)
			}
		}, []string{"condition.changed NoFault: 2 cards without a fault"}},
		{"the API server is away", func(r *rig) {
			r.server.UseFault(func(w http.ResponseWriter, _ *http.Request) bool {
				simapiserver.Refuse(w, http.StatusInternalServerError, "away")
				return true
			})
		}, func(r *rig) {
			r.devices.Store(bad)
			r.at(60, "")
			if v, _ := r.cards.Latest(); v.Status != nodecondition.Bad { // check doesn't wait for it
				r.t.Errorf("verdict %+v, want bad", v)
			}
			r.devices.Store(good)
			r.at(70, "")
			r.server.UseFault(nil)
			r.at(110, "True NoFault 61 "+heartbeat(r))
		}, []string{"api.lost <nil>", "api.recovered <nil>", "condition.changed NoFault: 2 cards without a fault"}},
		{"another program writes the condition", nil, func(r *rig) {
			r.devices.Store(bad)
			r.at(5, "False CardFault 1 1")
			r.server.SetCondition(worker, simapiserver.Condition{Type: nodecondition.Type, Status: "True", Reason: "Other",
				LastTransitionTime: r.began, LastHeartbeatTime: r.began, Manager: "agent"})
			r.at(300, "True Other 0 0")
			time.Sleep(time.Minute + 2*time.Second) // fake time
			synctest.Wait()
			if c := r.server.Conditions(worker)[0]; c.Status != "False" || !c.LastTransitionTime.Equal(r.began.Add(time.Second)) {
				r.t.Errorf("condition %+v, want it written again within 6 minutes", c)
			}
		}, []string{"condition.changed CardFault: 1 of 2 cards: 3b:00.0 port-ap6"}},
		{"another program owns the condition", func(r *rig) {
			r.kind = "example.com/FPGAs"
			r.server.SetCondition(worker, simapiserver.Condition{Type: r.kind, Status: "True", Reason: "Other",
				LastTransitionTime: r.began, LastHeartbeatTime: r.began, Manager: "agent"})
		}, func(r *rig) {
			r.devices.Store(bad)
			r.at(600, "True Other 0 0")
		}, []string{"api.lost <nil>"}},
		{"a hanging API server at the end", func(r *rig) {
			r.server.UseFault(func(_ http.ResponseWriter, q *http.Request) bool { <-q.Context().Done(); return true })
		}, func(r *rig) {
			r.devices.Store(bad)
			r.at(5, "")
			before := time.Now()
			if r.end(); time.Since(before) != 0 {
				r.t.Errorf("the tasks ended after %v, want at once", time.Since(before))
			}
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, test.prepare)
				test.do(r)
				r.end()
				compare.Values(t, "log", test.logs, r.logs())
			})
		})
	}
}

// heartbeat waits until the condition has been written, and returns the second when that happened.
func heartbeat(r *rig) string {
	for len(r.server.Conditions(worker)) == 0 {
		time.Sleep(time.Second) // fake time
	}
	return fmt.Sprintf("%.0f", r.server.Conditions(worker)[0].LastHeartbeatTime.Sub(r.began).Seconds())
}
