package cluster

// Exported for tests.
var (
	Ours     = ours
	Unescape = unescape
)
