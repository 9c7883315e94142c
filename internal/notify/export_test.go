package notify

// Limit adds the name of the sysctl to an error.
var Limit = limit
