package deviceplugin_test

// The lists of card A in mode af, while port 1 gets another AFU.
var (
	unmoved = resourceLists{afAa: {"3b:00.0": true, "3b:00.0-p1": true}}
	moving  = resourceLists{afAa: {"3b:00.0": true, "3b:00.0-p1": false}}
	moved   = resourceLists{afAa: {"3b:00.0": true}, afAb: {"3b:00.0-p1": true}}
)

// reprogram gives port 1 of card A another AFU.
func (d *testDaemon) reprogram(afu string) {
	d.t.Helper()
	d.do(d.node.Reprogram(cardA.Address, 1, afu))
}
