package backlog

const FlushTimeout = flushTimeout

// NewSized is [New] with another size of the queue.
var NewSized = newCore
