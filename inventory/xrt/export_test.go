package xrt

// The parsers of attributes.
var (
	ParseText      = parseText
	ParseVBNV      = parseVBNV
	ParseTimestamp = parseTimestamp
	ParseUUID      = parseUUID
	ParseState     = parseState
	ParseReady     = parseReady
)
