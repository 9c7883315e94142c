package deviceplugin_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

const testNode = "worker-3"

// cluster is an API server and a daemon that follows its node there.
type cluster struct {
	*testDaemon
	api *simapiserver.Server
}

// prepareCluster is like prepareDaemon, but with an API server.
func prepareCluster(t *testing.T, adjust func(*config.Config)) *cluster {
	t.Helper()
	c := &cluster{api: simapiserver.Start(nil)}
	t.Cleanup(c.api.Close)
	c.testDaemon = prepareDaemon(t, func(cfg *config.Config) {
		cfg.NodeName, cfg.Kubeconfig = testNode, filepath.Join(t.TempDir(), "kubeconfig")
		if adjust != nil {
			adjust(cfg)
		}
	})
	c.shorten()
	c.do(os.WriteFile(c.cfg.Kubeconfig, c.api.Kubeconfig(), 0o600))
	return c
}

// down makes the API server end every request without a response.
func (c *cluster) down() {
	c.api.UseFault(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	c.api.HangUp()
}

// ask sets the node's annotation, or removes it if mode is "".
func (c *cluster) ask(mode string) {
	annotations := map[string]string{"example.com/other": "x"}
	if mode != "" {
		annotations["fpga.intel.com/device-plugin-mode"] = mode
	}
	c.api.Set(testNode, "uid-1", annotations)
}

// probe doesn't keep connections open, just like a kubelet's probes.
var probe = http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}

// awaitGoroutines waits until there are no more than most goroutines.
func awaitGoroutines(t *testing.T, most int) {
	t.Helper()
	patient.Await(t, "goroutines", func() error {
		if n := runtime.NumGoroutine(); n > most {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, were %d:\n%s", n, most, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

// awaitSockets waits until there are this many sockets, one per resource. A retired resource's socket is removed after
// its stream has ended.
func (c *cluster) awaitSockets(when string, want int) {
	c.t.Helper()
	patient.Await(c.t, when, func() error {
		sockets, err := filepath.Glob(filepath.Join(c.cfg.KubeletDir, "accelerator-*.sock"))
		if err == nil && len(sockets) != want {
			err = fmt.Errorf("sockets %v, want %d", sockets, want)
		}
		return err
	})
}

// awaitGiven waits until Allocate returns this many device nodes for a device. The lists can be the same in two modes,
// but Allocate shows when the new mode is in force.
func (c *cluster) awaitGiven(when, resource, id string, nodes int) {
	c.t.Helper()
	patient.Await(c.t, when, func() error {
		answer, err := c.kubelet.Allocate(c.t.Context(), resource, id)
		if err == nil { // the checkpoint may still be written until the daemon has seen the allocation there
			c.awaitAsked()
			c.kubelet.End(resource, id)
		}
		if err == nil && len(answer.Devices) != nodes {
			err = fmt.Errorf("allocate of %s %s: %v, want %d nodes", resource, id, answer, nodes)
		}
		return err
	})
}

// lose calls away, which makes the API server unusable, and waits until the daemon has tried to reach it again.
func (c *cluster) lose(when string, away func()) {
	c.t.Helper()
	tried := len(c.lines("api.retried")) // number of attempts so far
	away()
	patient.Await(c.t, when, func() error {
		if len(c.lines("api.retried")) == tried {
			return errors.New("the API server is not tried again")
		}
		return nil
	})
}

// bothCards contains the two cards' lists in each mode, without holders.
var bothCards = map[string]resourceLists{
	"single":      {testResource: {"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true}},
	"af":          {afAa: {"3b:00.0": true, "3b:00.0-p1": true}, afBb: {"5e:00.0": true}},
	"region":      {regionA: {"3b:00.0": true}, regionB: {"5e:00.0": true}},
	"regiondevel": {regionA: {"3b:00.0": true}, regionB: {"5e:00.0": true}},
	"pool":        {testResource: {"0": true, "1": true}},
}

// The daemon follows the annotation from one mode to the next. An annotation that isn't a mode is ignored, and without
// an annotation, the setting is used. Earlier modes don't leave any goroutines, sockets or resources behind.
func TestAnnotation(t *testing.T) {
	c := prepareCluster(t, func(cfg *config.Config) { cfg.AccelNbUnits = 2 })
	c.ask("regiondevel")
	c.plug(cardA, cardB)
	c.run()
	c.awaitLists("annotated at the start", bothCards["regiondevel"])
	c.awaitReady()
	compare.Equal(t, "registrations in the mode that was set", 0, c.kubelet.Registrations(testResource))
	goroutines := runtime.NumGoroutine()

	before := "regiondevel"
	for _, step := range []struct{ name, ask, want string }{
		{"none", "", "single"},
		{"af", "af", "af"},
		{"no mode", "afu", "af"},
		{"region", "region", "region"},
		{"devel", "regiondevel", "regiondevel"},
		{"pool", "pool", "pool"},
		{"single", "single", "single"},
		{"devel again", "regiondevel", "regiondevel"},
	} {
		c.ask(step.ask)
		if step.name == "no mode" {
			c.awaitLine("config.notice", "is not a mode", "afu")
		} else { // the lists may be the same in both modes
			c.awaitLine("mode.changed", "new:"+step.want, "old:"+before)
		}
		before = step.want
		c.awaitLists(step.name, bothCards[step.want])
		c.awaitReady()
		c.awaitSockets(step.name, len(bothCards[step.want]))
		if given, ok := map[string]int{"region": 2, "regiondevel": 3}[step.want]; ok {
			c.awaitGiven(step.name, regionA, "3b:00.0", given)
		} else if answer, err := c.kubelet.Allocate(t.Context(), regionA, "3b:00.0"); err == nil {
			t.Errorf("%s: Allocate of a region = %v", step.name, answer)
		}
	}
	awaitGoroutines(t, goroutines)
	c.api.Delete(testNode)
	c.awaitLine("config.notice", "not known to the API server")
	c.awaitLists("no such node", bothCards["single"])
	c.ask("af")
	c.awaitLists("there again", bothCards["af"])
	compare.Equal(t, "changes of the mode", 10, len(c.lines("mode.changed")))
}

// A device that is held under one of the previous mode's resources stays in that resource, unhealthy, until it is free.
// So does a device that was allocated just before the mode changed.
func TestAnnotationWithHeldDevices(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, nil)
	c.ask("")
	c.plug(cardA, cardB)
	c.run()
	c.awaitLists("started", bothCards["single"])
	c.hold("job", testResource, "3b:00.0-p1")
	must.Value(c.kubelet.Allocate(t.Context(), testResource, "5e:00.0"))(t)
	held := health{"3b:00.0-p1": false, "5e:00.0": false}
	c.ask("af")
	c.awaitLists("af", resourceLists{testResource: held, afAa: {"3b:00.0": true}})
	for id := range held {
		c.awaitRefused("af", testResource, id, "replaced-in-use")
	}
	c.ask("region")
	c.awaitLists("region", resourceLists{testResource: held, regionA: {"3b:00.0": false}}) // one of its nodes is in use
	c.ask("")
	c.awaitLists("what it was", bothCards["single"])
	c.ask("af")
	c.awaitLists("af again", resourceLists{testResource: held, afAa: {"3b:00.0": true}})
	c.pods.Release("default", "job")
	c.awaitLists("the pod has ended", resourceLists{testResource: {"5e:00.0": false}, afAa: {"3b:00.0": true, "3b:00.0-p1": true}})
}

// If the API server is down at startup, the daemon waits for it only for a short time. It follows the annotation once
// the API server is up. If the API server goes down later, the devices stay.
func TestAPIServerIsDown(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, nil)
	c.down()
	c.plug(cardB)
	begin := time.Now()
	c.run()
	c.awaitLists("without the API server", resourceLists{testResource: {"5e:00.0": true}})
	if took := time.Since(begin); took < daemon.FirstAnswer {
		t.Errorf("the API server was waited for %s, want %s", took, daemon.FirstAnswer)
	}
	c.awaitLine("config.notice", "mode of the settings used", testNode)
	c.api.UseFault(nil)
	c.ask("af")
	c.awaitLists("it has come", resourceLists{afBb: {"5e:00.0": true}})
	c.lose("it has gone", c.down)
	c.plug(cardA)
	c.awaitLists("it has gone", bothCards["af"])
	c.api.UseFault(nil)
	c.ask("region")
	c.awaitLists("it is back", bothCards["region"])
}

// The mode changes while a container has a device that pod-resources never lists. Until the container ends, neither
// that device nor any other device with the same node can be allocated.
func TestNotGivenTwiceOverAModeChange(t *testing.T) {
	type unit struct{ mode, resource, id string }
	for _, test := range []struct {
		name        string
		given, next unit
	}{
		{"another name", unit{"single", testResource, "5e:00.0"}, unit{"af", afBb, "5e:00.0"}},
		{"back to the setting", unit{"af", afBb, "5e:00.0"}, unit{"", testResource, "5e:00.0"}},
		{"a card with the port", unit{"single", testResource, "3b:00.0-p1"}, unit{"region", regionA, "3b:00.0"}},
		{"a card of the port's id", unit{"af", afAa, "3b:00.0"}, unit{"regiondevel", regionA, "3b:00.0"}},
		{"a port of the card's id", unit{"region", regionA, "3b:00.0"}, unit{"single", testResource, "3b:00.0"}},
		{"another port of the card", unit{"region", regionA, "3b:00.0"}, unit{"af", afAa, "3b:00.0-p1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := prepareCluster(t, nil)
			c.plug(cardA, cardB)
			c.ask(test.given.mode)
			c.run()
			c.awaitLists("started", bothCards[test.given.mode])
			must.Value(c.kubelet.Allocate(t.Context(), test.given.resource, test.given.id))(t)
			c.ask(test.next.mode)
			c.awaitLine("mode.changed", "old:"+test.given.mode)
			again := func() error {
				return compare.ErrorOf(c.kubelet.Allocate(t.Context(), test.next.resource, test.next.id))
			}
			for range 10 {
				if again() == nil {
					t.Fatal("given out twice")
				}
				c.awaitAsked()
			}
			c.kubelet.End(test.given.resource, test.given.id)
			patient.Await(t, "the container has ended", again)
		})
	}
}

// The settings that are reread on SIGHUP apply in the annotation's mode, and names from removed rules are still ours.
func TestHangupInTheModeOfTheAnnotation(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, nil)
	c.ask("af")
	c.plug(cardA, cardB)
	c.run()
	c.awaitLists("af", bothCards["af"])
	const lab = "example.com/lab"
	hangup := func(rules ...offer.Rule) {
		c.loader.Config.Resources = rules
		c.hangups <- syscall.SIGHUP
	}
	hangup(offer.Rule{Resource: lab, Match: offer.Match{PCIAddress: "5e:00.0"}})
	inLab := resourceLists{afAa: bothCards["af"][afAa], lab: {"5e:00.0": true}}
	c.awaitLists("a rule", inLab)
	c.hold("job", lab, "5e:00.0")
	hangup()
	c.awaitRefused("the rule is gone", lab, "5e:00.0", "replaced-in-use")
	c.ask("single")
	c.awaitLists("single", resourceLists{
		testResource: {"3b:00.0": true, "3b:00.0-p1": true}, lab: {"5e:00.0": false},
	})
	c.pods.Release("default", "job")
	c.awaitLists("the pod has ended", bothCards["single"])
}
