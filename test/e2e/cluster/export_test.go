package cluster

// What the tests look at.
var (
	WritePKI  = writePKI
	Arguments = arguments
	Ours      = ours
	Unescape  = unescape
	LastLines = lastLines

	WriteCredentials = Credentials.write
)
