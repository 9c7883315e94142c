package backlog

const FlushTimeout = flushTimeout

// NewSized is [New] with a buffer of another size.
var NewSized = newCore
