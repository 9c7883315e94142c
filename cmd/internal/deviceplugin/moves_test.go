package deviceplugin_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
)

// The lists of card A in mode af, while port 1 gets another AFU.
var (
	unmoved = offers{afAa: {"3b:00.0": true, "3b:00.0-p1": true}}
	moving  = offers{afAa: {"3b:00.0": true, "3b:00.0-p1": false}}
	moved   = offers{afAa: {"3b:00.0": true}, afAb: {"3b:00.0-p1": true}}
)

// inModeAF returns a daemon in mode af with card A.
func inModeAF(t *testing.T, adjust func(*config.Config)) *testDaemon {
	t.Helper()
	t.Parallel()
	d := inMode(t, "af", adjust)
	d.do(d.node.Plug(cardA))
	d.awaitOffers("card in", unmoved)
	return d
}

// reprogram gives port 1 of card A another AFU.
func (d *testDaemon) reprogram(afu string) {
	d.t.Helper()
	d.do(d.node.Reprogram(cardA.Address, 1, afu))
}

// A free port moves to the resource of its new AFU, and Allocate of the old one refuses it.
func TestFreePortMoves(t *testing.T) {
	d := inModeAF(t, nil)
	d.reprogram(cardB.AFUID)
	d.awaitOffers("another AFU", moved)
	d.awaitLine("device.identity", "resource", afAa, afAb)
	d.awaitRefused("it has moved", afAa, "3b:00.0-p1", "not listed")
	if _, err := d.kubelet.Allocate(t.Context(), afAb, "3b:00.0-p1"); err != nil {
		t.Errorf("Allocate of the new resource: %v", err)
	}
	d.do(d.node.Reprogram(cardA.Address, 0, cardB.AFUID))
	d.awaitOffers("the old resource is empty", offers{afAa: {}, afAb: {"3b:00.0": true, "3b:00.0-p1": true}})
}

// A port that a container holds stays until the container has ended. It is unhealthy there, and
// healthy again if it has the AFU that the container was given.
func TestHeldPortMovesWhenFree(t *testing.T) {
	d := inModeAF(t, nil)
	d.hold("job", afAa, "3b:00.0-p1")
	d.reprogram(cardB.AFUID)
	d.awaitOffers("another AFU", moving)
	d.awaitRefused("another AFU", afAa, "3b:00.0-p1", "replaced-in-use")
	d.awaitLine("device.tombstone", "3b:00.0-p1", afAa, "default/job/main")
	d.awaitAsked()
	d.awaitOffers("asked again who holds it", moving)
	d.reprogram(cardA.AFUID)
	d.awaitOffers("the old AFU again", unmoved)
	d.reprogram(cardB.AFUID)
	d.awaitOffers("another AFU again", moving)
	d.awaitRefused("another AFU again", afAa, "3b:00.0-p1", "replaced-in-use")

	d.do(d.node.Unplug(cardA.Address))
	d.awaitOffers("card out", offers{afAa: {"3b:00.0-p1": false}})
	d.do(d.node.Plug(cardA)) // with the AFU that the container was given
	d.awaitOffers("card in", unmoved)
	d.reprogram(cardB.AFUID)
	d.awaitOffers("another AFU once more", moving)
	d.awaitRefused("another AFU once more", afAa, "3b:00.0-p1", "replaced-in-use")
	d.pods.Release("default", "job")
	d.awaitOffers("the pod has ended", moved)
}

// A kubelet that restarts during a move gets the current lists, and then the later ones.
func TestKubeletRestartsDuringMove(t *testing.T) {
	d := inModeAF(t, nil)
	d.pods.Behave(simkubelet.PodBehaviour{Stall: true})
	d.reprogram(cardB.AFUID)
	d.awaitOffers("holders not known", moving)
	d.awaitRefused("holders not known", afAa, "3b:00.0-p1", "moving")
	d.restartKubelet()
	d.awaitOffers("the kubelet has restarted", moving)
	d.pods.Behave(simkubelet.PodBehaviour{})
	d.awaitOffers("free", moved)
	d.restartKubelet()
	d.awaitOffers("the kubelet has restarted again", moved)
}
