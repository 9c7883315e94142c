package sysfs

// AppendEntries takes apart what the kernel says is in a directory.
var AppendEntries = appendEntries
