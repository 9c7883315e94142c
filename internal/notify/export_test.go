package notify

// Limit names the sysctl behind an error.
var Limit = limit
