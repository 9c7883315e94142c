package holders_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

func openInjected(t *testing.T, dir string) *holders.Injected {
	t.Helper()
	return must.Value(holders.OpenInjected(dir))(t)
}

// During a rolling upgrade, the two daemons remember device nodes for each other. Once both have forgotten everything,
// the file is removed.
func TestInjected(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	a, b := openInjected(t, dir), openInjected(t, dir)
	for i, add := range []map[string][]string{{"3b:00.0": {"port.1", "port.0"}}, {"5e:00.0": {"port.2"}}, {"3b:00.0": {"port.0", "port.3"}}} {
		must.Succeed(t, []*holders.Injected{a, b, a}[i].Add(t.Context(), add))
	}
	want := map[string][]string{"3b:00.0": {"port.0", "port.1", "port.3"}, "5e:00.0": {"port.2"}}
	compare.Values(t, "All", want, openInjected(t, dir).All())
	must.Succeed(t, a.Forget(t.Context(), func(string) bool { return false }))
	compare.ErrorIs(t, "file", os.ErrNotExist, compare.ErrorOf(os.Stat(filepath.Join(dir, "injected.json"))))
}

// A driver that is finishing its claims unprepares a claim that the kubelet never lists. The device plugin, which was
// started before, notices that the device is free. A driver that was started before the claim was recorded also forgets
// it.
func TestUnpreparedElsewhere(t *testing.T) {
	r := newRig(t)
	r.cfg.StateDir = privatedirtest.Dir(t)
	early, former := openInjected(t, r.cfg.StateDir), openInjected(t, r.cfg.StateDir)
	must.Succeed(t, former.SetClaimed(t.Context(), map[string][]string{"3b:00.0": {"dfl-port.3"}}))
	plugin := r.cfg
	plugin.Injected = openInjected(t, r.cfg.StateDir)
	s := holders.New(plugin)
	compare.Equal(t, "prepared", 1, len(s.Ask(t.Context()).Of["3b:00.0"]))
	must.Succeed(t, early.SetClaimed(t.Context(), nil))
	compare.ErrorIs(t, "file", os.ErrNotExist, compare.ErrorOf(os.Stat(filepath.Join(r.cfg.StateDir, "injected.json"))))
	compare.Equal(t, "unprepared", 0, len(s.Ask(t.Context()).Of["3b:00.0"]))
}

func TestInjectedAfterReboot(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "injected.json"), []byte(`{"version":1,"boot":"another","nodes":{"3b:00.0":["n"]}}`), 0o600))
	compare.Empty(t, "openInjected", openInjected(t, dir).All())
}

func FuzzInjected(f *testing.F) {
	for _, text := range []string{"", "{}", `{"version":2}`, `{"version":1,"nodes":{"3b:00.0":[]}}`, `{"version":1,"nodes":[1]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "injected.json"), text, 0o600))
		i, err := holders.OpenInjected(dir)
		if err != nil {
			compare.Contains(t, "error", filepath.Join(dir, "injected.json"), err.Error())
			return
		}
		compare.NoError(t, "Add", i.Add(t.Context(), map[string][]string{"3b:00.0": {"n"}}))
	})
}

// After a switch from the DRA driver, the device plugin knows which device nodes claims were given, because a card that
// now has one of them must not be advertised. It forgets them once the pods have ended.
func TestClaimedNodes(t *testing.T) {
	r := newRig(t)
	r.write(t, fileOf(t, "uid", port, "af:00.0", "dfl-port.9"))
	r.cfg.StateDir, r.cfg.Confirm = privatedirtest.Dir(t), time.Millisecond
	of := openInjected(t, r.cfg.StateDir)
	must.Succeed(t, of.Add(t.Context(), map[string][]string{"3b:00.0": {"dfl-port.7"}}),
		of.SetClaimed(t.Context(), map[string][]string{"5e:00.0": {"dfl-port.1"}}),
		of.SetClaimed(t.Context(), map[string][]string{"3b:00.0": {"dfl-port.3", "120:3", "dfl-port.3"}}))
	r.HoldClaim("ns", "pod", "main", "claim", draname.Driver, draname.Device("3b:00.0"))

	driver := r.cfg
	driver.DRA, driver.Injected = true, of
	driver.Claims = func(context.Context) (map[string][]inventory.Holding, error) { return nil, nil } // read before the claim was prepared
	holders.New(driver).Ask(t.Context())

	plugin := r.cfg
	plugin.Injected = openInjected(t, r.cfg.StateDir)
	s := holders.New(plugin)
	holding := s.Ask(t.Context()).Of["3b:00.0"]
	if len(holding) != 1 || !slices.Equal(holding[0].Nodes, []string{"120:3", "dfl-port.3"}) || holding[0].NodesErr != nil || !holding[0].OtherAPI {
		t.Errorf("found %+v, want the nodes of the claim", holding)
	}

	// The card's numbers have changed since then. A driver that is finishing its claims gives the new ones to a
	// restarted container.
	must.Succeed(t, plugin.Injected.Add(t.Context(), map[string][]string{"3b:00.0": {"dfl-port.5"}}))
	s.Ask(t.Context())
	plugin.Injected = openInjected(t, r.cfg.StateDir)
	s = holders.New(plugin)
	holding = s.Ask(t.Context()).Of["3b:00.0"]
	if len(holding) != 1 || !slices.Equal(holding[0].Nodes, []string{"120:3", "dfl-port.3"}) || !slices.Equal(holding[0].Later, []string{"dfl-port.5"}) {
		t.Errorf("after a restart: found %+v, want also the newer node", holding)
	}
	r.Release("ns", "pod")
	patient.Await(t, "nothing is remembered", func() error {
		s.Ask(t.Context())
		if left := openInjected(t, r.cfg.StateDir).All(); len(left) > 0 {
			return fmt.Errorf("found %v", left)
		}
		return nil
	})
}
