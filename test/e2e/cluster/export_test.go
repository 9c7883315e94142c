package cluster

// For tests.
var (
	Ours     = ours
	Unescape = unescape
)
