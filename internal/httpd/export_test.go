package httpd

// RunRetrying is [Run] with another time between two attempts to listen.
var RunRetrying = run

// LocalOnly is the check of the Host header.
var LocalOnly = localOnly

// FewLines is the writer that limits the lines of the library.
var FewLines = newFewLines

const (
	MaxClients     = maxClients
	Patience       = patience
	MaxBodyClients = maxBodyClients
	BodyPatience   = bodyPatience
)
