package deviceplugin_test

import "testing"

// The lists of card A in mode af, while port 1 gets another AFU.
var (
	unmoved = offers{afAa: {"3b:00.0": true, "3b:00.0-p1": true}}
	moving  = offers{afAa: {"3b:00.0": true, "3b:00.0-p1": false}}
	moved   = offers{afAa: {"3b:00.0": true}, afAb: {"3b:00.0-p1": true}}
)

// reprogram gives port 1 of card A another AFU.
func (d *testDaemon) reprogram(afu string) {
	d.t.Helper()
	d.do(d.node.Reprogram(cardA.Address, 1, afu))
}

// A port that a container holds stays until the container has ended. It is unhealthy there, and
// healthy again if it has the AFU that the container was given.
func TestHeldPortMovesWhenFree(t *testing.T) {
	t.Parallel()
	d := inMode(t, "af", nil)
	d.do(d.node.Plug(cardA))
	d.awaitOffers("card in", unmoved)
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
