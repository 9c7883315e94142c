package pci

// ParseTotal parses an error count from a file's content.
var ParseTotal = parseTotal
