package xrt

// The attribute parsers.
var (
	ParseText      = parseText
	ParseVBNV      = parseVBNV
	ParseTimestamp = parseTimestamp
	ParseUUID      = parseUUID
	ParseState     = parseState
	ParseReady     = parseReady
)
