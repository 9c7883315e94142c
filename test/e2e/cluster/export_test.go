package cluster

// For tests.
var (
	WritePKI = writePKI
	Ours     = ours
	Unescape = unescape

	WriteCredentials = Credentials.write
)
