package checkpoint

// Parse parses the content of a checkpoint.
var Parse = parse
