package holders_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func openInjected(t *testing.T, dir string) *holders.Injected {
	t.Helper()
	return must.Value(holders.OpenInjected(dir))(t)
}

// Two daemons of a rolling upgrade remember nodes for each other. What both have forgotten needs no file.
func TestInjected(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	a, b := openInjected(t, dir), openInjected(t, dir)
	for i, add := range []map[string][]string{{"3b:00.0": {"port.1", "port.0"}}, {"5e:00.0": {"port.2"}}, {"3b:00.0": {"port.0", "port.3"}}} {
		must.Succeed(t, []*holders.Injected{a, b, a}[i].Add(t.Context(), add))
	}
	want := map[string][]string{"3b:00.0": {"port.0", "port.1", "port.3"}, "5e:00.0": {"port.2"}}
	if got := openInjected(t, dir).All(); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("found %v, want %v", got, want)
	}
	must.Succeed(t, a.Forget(t.Context(), func(string) bool { return false }))
	if _, err := os.Stat(filepath.Join(dir, "injected.json")); !os.IsNotExist(err) {
		t.Errorf("found %v, want no file", err)
	}
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
		if err := i.Add(t.Context(), map[string][]string{"3b:00.0": {"n"}}); err != nil {
			t.Error(err)
		}
	})
}
