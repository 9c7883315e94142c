package pci

// ParseTotal returns a count of errors in the value of a file.
var ParseTotal = parseTotal
