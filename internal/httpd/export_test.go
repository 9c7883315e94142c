package httpd

// RunRetrying is [Run] with another pause between two attempts to listen.
var RunRetrying = run
