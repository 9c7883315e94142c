package cluster

// For tests.
var (
	WritePKI  = writePKI
	Arguments = arguments
	Ours      = ours
	Unescape  = unescape
	LastLines = lastLines

	WriteCredentials = Credentials.write
)
