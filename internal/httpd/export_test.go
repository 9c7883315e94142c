package httpd

// RunRetrying is [Run] with another time between two attempts to listen.
var RunRetrying = run

// Serve serves a listener until its context ends.
var Serve = serve

// LocalOnly is the check of the Host header.
var LocalOnly = localOnly

const (
	MaxClients     = maxClients
	Patience       = patience
	MaxBodyClients = maxBodyClients
	BodyPatience   = bodyPatience
)
