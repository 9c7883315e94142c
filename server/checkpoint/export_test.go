package checkpoint

// Parse reads the content of a checkpoint.
var Parse = parse
