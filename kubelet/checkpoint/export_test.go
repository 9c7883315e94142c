package checkpoint

// Parse returns the record in the content of a checkpoint.
var Parse = parse
