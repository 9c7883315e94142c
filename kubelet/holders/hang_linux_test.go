package holders_test

import (
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// While the state directory hangs, holders are still reported, but an allocation that has to be remembered fails.
func TestStateDirHangs(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), privatedirtest.Dir(t)
	injected := openInjected(t, dir)
	held, given := map[string][]string{"3b:00.0": {"port.0"}}, map[string][]string{"5e:00.0": {"port.1"}}
	must.Succeed(t, injected.Add(t.Context(), held))
	r.write(t, `{"Data":{"PodDeviceEntries":[]}}`)
	r.cfg.Injected, r.cfg.StateDir = injected, dir
	release := privatedirtest.Hang(t, dir)

	s := holders.New(r.cfg) // without the state directory
	for range 5 {
		began := time.Now()
		if h := s.Ask(t.Context()); h.Problem() != nil || time.Since(began) > 10*time.Second {
			t.Errorf("found %+v after %s, want an answer", h, time.Since(began))
		}
	}
	for range 2 {
		began := time.Now()
		err := injected.Add(t.Context(), given)
		if err == nil || err.Error() != dir+": no answer: the file system hangs" || time.Since(began) > 10*time.Second {
			t.Errorf("error %v after %s, want that the file system hangs", err, time.Since(began))
		}
	}
	compare.Equal(t, fmt.Sprintf("remembered nodes of %v", injected.All()), 1, len(injected.All()))
	compare.Error(t, "opened at the start", "the file system hangs", compare.ErrorOf(holders.OpenInjected(dir)))

	release()
	patient.Await(t, "the file system answers", func() error { return injected.Add(t.Context(), given) })
	if got := openInjected(t, dir).All(); got["5e:00.0"] == nil {
		t.Errorf("on the disk: found %v, want 5e:00.0", got)
	}
	compare.NoError(t, "Problem", s.Ask(t.Context()).Problem())
	compare.Empty(t, "All", injected.All())
}
