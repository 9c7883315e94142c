package certificate

// For tests.
var (
	Bundle          = bundle
	Choose          = choose
	NewSourceSigned = newSource
)
